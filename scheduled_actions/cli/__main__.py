"""`python -m scheduled_actions.cli`, where no script is on the path."""

from scheduled_actions.cli import main

if __name__ == "__main__":
    main(prog_name="scheduled-actions")
