"""``python -m sfumato``: the command line."""

from sfumato.interfaces.cli.main import app

__all__: list[str] = []

if __name__ == "__main__":
    app(prog_name="sfumato")
