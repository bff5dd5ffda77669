"""Queries that try what DuckDB and Spark treat differently, for `test_sql_cookbook`."""

from __future__ import annotations

EQUAL = (
    # Division, remainders, rounding and casts of numbers
    "SELECT a, b, a / b AS q, a DIV b AS d, a % b AS m, pmod(a, b) AS p, -a AS n "
    "FROM VALUES (7, 2), (-7, 2), (7, -2), (NULL, 2) AS t(a, b)",
    "SELECT x, CAST(x AS BIGINT) AS whole, round(x) AS r0, round(x, 1) AS r1, round(x, 2) AS r2, "
    "floor(x) AS f, ceil(x) AS c, abs(x) AS a FROM VALUES (2.5D), (-2.5D), (2.675D), (1.005D), "
    "(0.15D), (1e15D), (-0.5D), (NULL) AS t(x)",
    "SELECT 1e0 / 3 AS a, 2 / 3.0D AS b, 5 = '5' AS c, 3 > 2.5 AS d, 2147483647 AS e",
    # Texts
    "SELECT s, length(s) AS l, trim(s) AS t, ltrim(s) AS lt, substring(s, 2, 2) AS ss, "
    "substr(s, 2) AS s2, left(s, 2) AS le, right(s, 2) AS ri, instr(s, 'b') AS i, "
    "concat(s, 'x', 1) AS c, s || s AS cc, concat_ws('-', s, NULL, 'z') AS cw, "
    "split(s, ',') AS sp, replace(s, 'b', '') AS rp, hex(s) AS h "
    "FROM VALUES ('abc'), (''), (' äöü '), (NULL), ('a,b,'), ('𝄞x') AS t(s)",
    "SELECT s, s LIKE '%b%' AS a, s LIKE '_b%' AS b, s ILIKE '%B%' AS c, s NOT LIKE 'a%' AS d, "
    "s RLIKE '^a.c$' AS e, s RLIKE 'b|c' AS f, regexp_extract(s, '([a-z]+)-([0-9]+)', 2) AS g, "
    "startswith(s, 'a') AS h, contains(s, 'b') AS i, upper(s) AS u, lower(s) AS lo "
    "FROM VALUES ('abc'), ('a-12'), (NULL), (''), ('xyz-9-q'), ('ABC') AS t(s)",
    "SELECT s RLIKE 'a.b' AS dot, s RLIKE 'b$' AS end, s RLIKE 'a[^x]b' AS no, hex(s) AS h FROM "
    "(SELECT concat('a', x, 'b') AS s FROM VALUES ('x'), ('xx'), ('é'), ('\u2028'), ('\n') "
    "AS t(x))",
    # Nulls: their order, in sets, in arrays, in comparisons
    "SELECT x FROM VALUES (1), (NULL), (3) AS t(x) ORDER BY x",
    "SELECT x FROM VALUES (1), (NULL), (3) AS t(x) ORDER BY x DESC",
    "SELECT x FROM VALUES (1), (NULL), (3) AS t(x) ORDER BY x DESC NULLS FIRST",
    "SELECT a IN (1, NULL) AS i, a NOT IN (1, NULL) AS n, a <=> NULL AS s, NOT (a > 1) AS g, "
    "a BETWEEN 1 AND 2 AS b, a IS DISTINCT FROM 1 AS d FROM VALUES (1), (2), (NULL) AS t(a)",
    "SELECT greatest(1, NULL, 3) AS a, least(2, NULL) AS b, nullif(1, 1) AS c, "
    "coalesce(NULL, NULL, 'x') AS d, if(NULL, 1, 2) AS e, nvl2(NULL, 1, 2) AS f",
    # Aggregates, also of nothing
    *(
        "SELECT sort_array(collect_list(x)) AS l, sort_array(collect_set(x)) AS s, count(x) AS c, "
        "count(*) AS n, count(DISTINCT x) AS d, sum(x) AS su, avg(x) AS av, count_if(x > 1) AS ci, "
        "bool_or(x > 2) AS bo, percentile_approx(x, 0.5) AS pa, percentile(x, 0.5) AS p, "
        f"median(x) AS me, max_by(x, x) AS mb FROM VALUES (1), (NULL), (3), (8) AS t(x) WHERE {x}"
        for x in ("true", "x > 99")
    ),
    "SELECT max_by(a, b) AS m, min_by(a, b) AS n FROM VALUES (1, NULL), (NULL, 9), (3, 4) "
    "AS t(a, b)",
    "SELECT a, b, count(*) AS n FROM VALUES (1, NULL), (1, NULL), (NULL, 2) AS t(a, b) "
    "GROUP BY a, b ORDER BY a, b",
    "SELECT count(*) FILTER (WHERE tombstone) AS t, count(*) AS n FROM records",
    # Arrays, maps and structs
    "SELECT size(x) AS a, sort_array(x) AS b, array_contains(x, 'a') AS c, "
    "filter(x, y -> y LIKE 'a%') AS d, transform(x, y -> upper(y)) AS e, exists(x, y -> y = 'a') "
    "AS f, forall(x, y -> y = 'a') AS g, array_join(x, '/') AS h, get(x, 0) AS i, get(x, 9) AS j "
    "FROM (SELECT split(s, ',') AS x FROM VALUES ('a,b'), (NULL), ('a'), ('') AS t(s))",
    "SELECT array_contains(array(1, NULL), 2) AS a, array_contains(array(1, 2), 3) AS b, "
    "sort_array(array(3, NULL, 1)) AS c, sort_array(array(3, NULL, 1), false) AS d, "
    "array_sort(array(3, NULL, 1)) AS e, array_max(array(1, NULL, 5)) AS f, array(1, 2)[1] AS g, "
    "exists(array(1, NULL), y -> y > 5) AS h, forall(array(1, NULL), y -> y > 0) AS i",
    "SELECT s, c FROM (SELECT s, split(s, ',') AS x FROM VALUES ('a,b'), (NULL), ('c') AS t(s)) "
    "LATERAL VIEW OUTER explode(x) e AS c",
    "SELECT s, p, c FROM (SELECT s, split(s, ',') AS x FROM VALUES ('a,b'), (NULL) AS t(s)) "
    "LATERAL VIEW posexplode(x) e AS p, c",
    "SELECT s, explode(split(s, ',')) FROM VALUES ('a,b'), (NULL), ('c') AS t(s)",
    "SELECT k, v FROM runs LATERAL VIEW explode(table_versions) t AS k, v",
    "SELECT table_versions['nope'] AS a, table_versions['records'] AS b, size(to_offsets) AS c, "
    "sort_array(map_keys(table_versions)) AS d, element_at(table_versions, 'gaps') AS e FROM runs",
    "SELECT named_struct('a', epoch, 'b', type) AS s, struct(epoch, type).type AS t FROM groups",
    "SELECT consumer_group_metadata, consumer_group_metadata.epoch FROM group_records "
    "WHERE consumer_group_metadata.epoch > 10 ORDER BY partition, offset",
    "SELECT offset, t.name AS n, transform(consumer_group_current_member_assignment"
    ".assigned_partitions, x -> size(x.partitions)) AS z FROM group_records LATERAL VIEW OUTER "
    "explode(consumer_group_member_metadata.subscribed_topic_names) t AS name",
    # Times
    "SELECT ts, CAST(ts AS DATE) AS d, hour(ts) AS h, second(ts) AS s, year(ts) AS y, "
    "dayofweek(ts) AS dw, dayofyear(ts) AS dy, weekofyear(ts) AS wy, unix_timestamp(ts) AS u, "
    "unix_millis(ts) AS um, CAST(ts AS STRING) AS st, date_trunc('week', ts) AS w, "
    "date_format(ts, 'yyyy-MM-dd HH:mm:ss') AS df, extract(HOUR FROM ts) AS e, "
    "concat('at ', ts) AS c FROM VALUES (TIMESTAMP'2026-03-29 02:30:15.123456'), "
    "(TIMESTAMP'1969-12-31 23:59:59.5'), (NULL), (TIMESTAMP'2026-06-01T10:00:00+02:00') AS t(ts)",
    "SELECT timestampdiff(SECOND, a, b) AS s, timestampdiff(HOUR, a, b) AS h, "
    "timestampdiff(DAY, a, b) AS d, datediff(b, a) AS dd, a + INTERVAL 5 MINUTES AS p, "
    "a - INTERVAL '2' DAY AS q, a + INTERVAL 1 MONTH AS mo, b - a > INTERVAL 10 MINUTES AS g "
    "FROM VALUES (TIMESTAMP'2026-01-31 10:00:00.9', TIMESTAMP'2026-02-01 09:00:00.1'), "
    "(TIMESTAMP'2026-02-01 09:00:00.1', TIMESTAMP'2026-01-31 10:00:00.9'), "
    "(TIMESTAMP'2026-01-31 10:00:00', NULL) AS t(a, b)",
    "SELECT date_add(DATE'2026-01-31', 1) AS a, date_sub(DATE'2026-01-01', 1) AS b, "
    "CAST('2026-01-01 10:00' AS TIMESTAMP) AS c, to_date('2026-01-05') AS d, "
    "CAST(DATE'2026-01-01' AS TIMESTAMP) AS e, timestamp_millis(1767225600123) AS f",
    "SELECT count(*) AS n FROM records WHERE timestamp > '2026-01-01 00:02:00' "
    "AND timestamp <= TIMESTAMP'2026-01-01T00:08:00Z'",
    # Windows
    "SELECT partition, offset, row_number() OVER w AS r, lag(kind, 1, '-') OVER w AS l, "
    "sum(1) OVER (PARTITION BY group_id ORDER BY offset ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) "
    "AS s, count(*) OVER (PARTITION BY group_id ORDER BY timestamp RANGE BETWEEN INTERVAL 1 MINUTE "
    "PRECEDING AND CURRENT ROW) AS c, ntile(4) OVER w AS q, dense_rank() OVER (PARTITION BY "
    "group_id ORDER BY kind) AS d FROM group_records WINDOW w AS (PARTITION BY group_id ORDER BY "
    "offset)",
    "SELECT group_id, offset FROM group_records QUALIFY row_number() OVER (PARTITION BY group_id "
    "ORDER BY offset DESC) <= 2 ORDER BY group_id, offset",
    # Names: their case, aliases that hide columns, columns that are keywords
    "SELECT GROUP_ID, Kind, count(*) FROM RECORDS GROUP BY ALL",
    "SELECT -offset AS offset FROM records ORDER BY offset LIMIT 3",
    "SELECT offset + 1 AS offset FROM records WHERE offset > 500",
    "SELECT date_trunc('minute', timestamp) AS timestamp, count(*) AS n FROM records "
    "GROUP BY timestamp",
    "SELECT count(*), offset FROM records WHERE offset < 3 GROUP BY offset",
    "SELECT max(offset), sum(offset), avg(offset), count(DISTINCT group_id), 1, 'x', true "
    "FROM records",
    "SELECT offset + 1 AS a, a * 2 AS b FROM records ORDER BY b LIMIT 3 OFFSET 2",
    'SELECT `group_id`, "text" AS `a b` FROM `groups`',
    # Joins, subqueries and sets
    "SELECT * EXCEPT (cluster_id) FROM groups g",
    "SELECT g.*, m.member_id FROM groups g JOIN members m ON g.group_id = m.group_id",
    "SELECT group_id FROM groups g LEFT ANTI JOIN members m ON g.group_id = m.group_id",
    "SELECT a.x, b.y FROM (SELECT explode(array(1, 2)) AS x) a FULL JOIN "
    "(SELECT explode(array(2, 3)) AS y) b ON a.x = b.y ORDER BY x, y",
    "SELECT group_id FROM groups WHERE group_id IN (SELECT group_id FROM members WHERE "
    "member_epoch > 3) AND NOT EXISTS (SELECT 1 FROM offsets o WHERE o.group_id = groups.group_id "
    "AND o.committed_offset < 0)",
    # A join whose filter DuckDB would push into Arrow's scan as a Bloom filter
    "SELECT count(*) AS n FROM records r JOIN groups g ON r.group_id = g.group_id "
    "AND r.partition = g.partition WHERE g.type = 'consumer'",
    "WITH x AS (SELECT group_id, epoch FROM groups), y AS (SELECT group_id, count(*) AS n FROM "
    "members GROUP BY group_id) SELECT x.group_id, epoch, n FROM x LEFT JOIN y "
    "ON x.group_id = y.group_id ORDER BY n, x.group_id",
    "SELECT 'a' AS k, epoch AS v FROM groups UNION ALL SELECT 'b', members FROM groups",
    "SELECT type FROM groups EXCEPT SELECT 'consumer'",
    # Bytes and raw values
    "SELECT length(raw_key) AS k, hex(raw_key) AS h, raw_value FROM records "
    "ORDER BY partition, offset LIMIT 4",
    "DESCRIBE TABLE groups",
    "DESCRIBE group_records",
    "SHOW TABLES",
    "SHOW COLUMNS IN members",
    "TABLE groups",
    "FROM groups SELECT group_id",
)
"""Queries with equal results. The order of rows counts if the query ends with ORDER BY."""

ONLY_SPARK = (
    "SELECT 100.0 * epoch / 3 AS x FROM groups",
    "SELECT epoch * 0.5 AS x FROM groups",
    "SELECT array_distinct(array(1, 1)) AS x",
    "SELECT upper('straße') AS x",
    "SELECT CAST(1.5D AS STRING) AS x",
    "SELECT concat(1.5D, 'x') AS x",
    "SELECT DATE'2026-01-05' - DATE'2026-01-01' AS x",
    "SELECT timestamp - timestamp AS x FROM records LIMIT 1",
    "SELECT timestampdiff(MONTH, timestamp, timestamp) AS x FROM records LIMIT 1",
    "SELECT regexp_replace('abc', 'b', 'x') AS x",
    "SELECT 'abc' RLIKE 'b(?=c)' AS x",
    "SELECT 'a.b' RLIKE 'a\\\\.b' AS x",
    "SELECT split('a.b', '[.]') AS x",
    "SELECT CAST(' 5 ' AS INT) AS x",
    "SELECT epoch AS x FROM groups UNION ALL SELECT '5'",
    "SELECT round(epoch, 1) AS x FROM groups",
    "SELECT * FROM groups JOIN members USING (group_id)",
    "SELECT count(DISTINCT type, state) AS x FROM groups",
    "SELECT approx_count_distinct(group_id) AS x FROM groups",
    "SELECT substr('abc', -2) AS x",
    "SELECT date_format(updated_at, 'MMM') AS x FROM groups",
    "SELECT type, count(*) AS x FROM groups GROUP BY type WITH ROLLUP",
    "SELECT * FROM range(3)",
)
"""Queries that DuckDB would answer in another way, or not at all. Spark answers them."""

FAILING = (
    "SELECT 1 / 0",
    "SELECT 1 % 0",
    "SELECT array(1, 2)[2]",
    "SELECT sum(x) FROM VALUES (9223372036854775807), (1) AS t(x)",
)
"""Queries that fail on both engines, and to which neither gives a value."""
