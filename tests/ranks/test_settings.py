"""The settings that ranks compare."""

import torch
from torch import nn

from gradline.searches import Angle, GolsI
from gradline.torch.distributed.settings import checksum, differences, settings_of


class Own:
    """A search that is no dataclass: what is in it may be the process's own."""

    def __init__(self):
        self.place = object()
        self.rank = id(self)


def test_what_belongs_to_one_process_does_not_count():
    assert settings_of(Own(), None) == settings_of(Own(), None)
    parameters = [nn.Parameter(torch.zeros(2))]
    fast, slow = (torch.optim.Adam(parameters, lr=lr, foreach=foreach) for lr, foreach in ((1.0, True), (0.5, False)))
    assert settings_of(GolsI(), fast) == settings_of(GolsI(), slow)


def test_every_constant_and_option_counts():
    parameters = [nn.Parameter(torch.zeros(2))]
    plain = settings_of(GolsI(), torch.optim.Adam(parameters), spread=False)
    others = [
        settings_of(GolsI(growth=3.0), torch.optim.Adam(parameters), spread=False),
        settings_of(GolsI(), torch.optim.Adam(parameters, betas=(0.8, 0.99)), spread=False),
        settings_of(GolsI(), torch.optim.Adam(parameters), spread=True),
        settings_of(Angle(), torch.optim.Adam(parameters), spread=False),
        settings_of(GolsI(), None, spread=False),
    ]
    assert len({checksum(settings) for settings in [plain, *others]}) == 6
    assert differences(plain, others[1]) == "betas=(0.8, 0.99) instead of (0.9, 0.999)"
    assert differences(plain, others[3]) == "search=Angle instead of GolsI"
