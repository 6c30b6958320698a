"""Database: connections, transactions, statements, migrations and the embedded Postgres."""
