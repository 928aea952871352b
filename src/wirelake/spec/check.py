def check(protocol): pass
