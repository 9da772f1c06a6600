"""Names and signatures of other packages on Sfumato's engines, for scripts that move here."""
