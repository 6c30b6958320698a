"""The WSGI application with one more route that only runs `select 1`."""

from __future__ import annotations

from scheduled_actions.wsgi import app


@app.get("/select-1")
def select_one() -> dict[str, int]:
    """Run `select 1` on a pooled connection of the package."""
    with app.extensions["scheduled_actions"].database.connection() as connection:
        [(one,)] = connection.execute("select 1").fetchall()
    return {"one": one}
