"""The checks: does a lake agree with the reference coordinator, and with the live cluster?"""
