"""The database: connections, migrations, and one statement a file."""
