"""A folder for the search path of child processes: `import torch` there finds this package, as in their parent."""
