"""What pipes share: checks of functions, files, and passes that are taken up again."""

from torchlike.utils.data.datapipes.utils import common as common
from torchlike.utils.data.datapipes.utils import snapshot as snapshot
