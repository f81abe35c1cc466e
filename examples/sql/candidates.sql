CREATE VIEW candidates AS
WITH decisions AS (
    SELECT *
    FROM read_parquet('decisions/*/slot=home/*.parquet', hive_partitioning = true)
)
SELECT
    day, event, learner, k,
    unnest(candidates) AS item,
    unnest(position) AS position,
    unnest(propensity) AS propensity,
    unnest(feedback) AS feedback
FROM decisions;
