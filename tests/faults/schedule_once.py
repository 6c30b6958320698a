"""Schedule one action and print the result; run as a program with the arguments as JSON, `delay` in seconds.

python schedule_once.py '{"action_type": "proof:work", "payload": {}, "delay": 1800}'
"""

from __future__ import annotations

import json
import sys
import time
from datetime import timedelta

from scheduled_actions import schedule_action

arguments = json.loads(sys.argv[1])
delay = arguments.pop("delay", None)
scheduled = schedule_action(**arguments, scheduled_at=None if delay is None else timedelta(seconds=delay))
result = {"id": str(scheduled.id), "deduplicated": scheduled.deduplicated, "time": time.time()}
sys.stdout.write(json.dumps(result))
