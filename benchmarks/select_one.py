"""The ready-made application and one route more: the least that can be asked of it and its database."""

from __future__ import annotations

from scheduled_actions.wsgi import app


@app.get("/select-1")
def select_one() -> dict[str, int]:
    """Ask the database for a 1, on a connection of the package's own."""
    with app.extensions["scheduled_actions"].database.connection() as connection:
        [(one,)] = connection.execute("select 1").fetchall()
    return {"one": one}
