"""Run the attempts of a tick: call handlers on threads or in transactions, and collect their results."""
