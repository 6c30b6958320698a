"""The entry point of `python -m scheduled_actions.cli`, for installations without the script on the path."""

from scheduled_actions.cli import main

if __name__ == "__main__":
    main(prog_name="scheduled-actions")
