"""Send the welcome mail, templates/welcome.txt, an hour after the sign-up."""

from datetime import timedelta

from scheduled_actions import schedule_action


def signed_up(name: str, address: str) -> None:
    mail = {"to": address, "subject": "Welcome", "template": "welcome", "data": {"name": name}}
    schedule_action("email:send", mail, scheduled_at=timedelta(hours=1))
