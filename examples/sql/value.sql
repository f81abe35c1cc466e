WITH ranks AS (
    SELECT *, row_number() OVER (PARTITION BY event ORDER BY item) AS rank
    FROM candidates  -- another order: by name
), complete AS (
    SELECT event,
        sum(coalesce(2 ** feedback - 1, 0) / log2(1 + rank) / propensity)
            FILTER (WHERE position < k) AS value
    FROM ranks
    GROUP BY event
    HAVING count(feedback) = any_value(k)
)
SELECT avg(value) AS ips, count(*) AS decisions FROM complete;
