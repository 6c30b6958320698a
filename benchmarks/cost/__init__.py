"""Cost per action: CPU time, WAL bytes and statements of each step from schedule to prune."""
