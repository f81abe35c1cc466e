{{ config(materialized='incremental', unique_key=['event', 'item']) }}

WITH decisions AS (
    SELECT *
    FROM read_parquet(
        '{{ var("decisions") }}/*/*/*.parquet', hive_partitioning = true
    )
    {% if is_incremental() %}
    WHERE day >= (SELECT max(day) FROM {{ this }})
    {% endif %}
), candidates AS (
    SELECT day, slot, event, k, unnest(candidates) AS item,
        unnest(position) AS position, unnest(feedback) AS feedback
    FROM decisions
)
SELECT day, slot, event, item, position, feedback
FROM candidates
WHERE position < k
