"""The windows of `coordinates`: which keys a query sees (`positions.CoordinatePositions` says it in
words). The code of an exported model has a copy of this file.

Shapes: B sequences, T new tokens, S all tokens, K kinds. The last dimension of coordinates is 6.
"""

import torch
from torch import nn

from datagen.coordinates import COLUMN, KIND, NEXT_KIND, QUERY_COLUMN, QUERY_ROW, ROW
from datagen.slots import COPIES, FIELDS, Kind


class Windows(nn.Module):
    """Windows over rows and columns; None for no window."""

    is_field_K: torch.Tensor
    is_copy_K: torch.Tensor

    def __init__(self, rows: int | None, columns: int | None) -> None:
        super().__init__()
        self.rows, self.columns = rows, columns
        for name, kinds in (("field", FIELDS), ("copy", COPIES)):
            is_member_K = torch.tensor([kind in kinds for kind in Kind])
            self.register_buffer(f"is_{name}_K", is_member_K, persistent=False)

    @property
    def is_open(self) -> bool:
        """Whether there is no window."""
        return self.rows is None and self.columns is None

    def forward(self, all_BS6: torch.Tensor, new_BT6: torch.Tensor) -> torch.Tensor | None:
        """Returns which keys each new query sees, (B, T, S), apart from the causal mask; None if
        there is no window."""
        visible = [
            sees(all_BS6[:, None], new_BT6[:, :, None], window)
            for sees, window in ((self._rows, self.rows), (self._columns, self.columns))
            if window is not None
        ]
        return visible[0] & visible[-1] if visible else None

    def _rows(self, key: torch.Tensor, query: torch.Tensor, window: int) -> torch.Tensor:
        center = torch.where(query[..., QUERY_ROW] > 0, query[..., QUERY_ROW], query[..., ROW])
        near = (key[..., ROW] - center).abs() <= window
        return (key[..., ROW] == 0) | near & (center > 0)

    def _columns(self, key: torch.Tensor, query: torch.Tensor, window: int) -> torch.Tensor:
        column, kind, following = key[..., COLUMN], key[..., KIND], query[..., NEXT_KIND]
        wanted = query[..., QUERY_COLUMN]
        center = torch.where(wanted > 0, wanted, query[..., COLUMN])
        near = ((column - center).abs() <= window) & (center > 0)
        near &= self.is_field_K[kind] == self.is_copy_K[following]
        return (column == 0) | near
