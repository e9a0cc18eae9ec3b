"""Delta tables without Spark: Parquet files by partition, commits that happen once, orphans, compaction."""
