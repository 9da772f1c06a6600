"""The forked children of the ledger's tests, for those of the store."""

from tests.accounting.conftest import in_child, start_child

__all__ = ["in_child", "start_child"]
