"""``torch.distributed.launch``: the older name of :mod:`torch.distributed.run`."""

from torchlike.distributed.run import main as main

if __name__ == "__main__":
    main()
