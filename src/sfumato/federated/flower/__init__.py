"""The federated tasks as Flower apps; needs the extra ``sfumato[federated]``."""
