def check(protocol):
    pass
