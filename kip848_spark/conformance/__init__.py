"""Whether a group's records are a behaviour of the formal model in ``spec/`` (docs/model.md)."""
