def overview(): return "todo"
def of_verb(v): return "todo"
