"""Database: connections, transactions, statements, migrations, the embedded Postgres."""
