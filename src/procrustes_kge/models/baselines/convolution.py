"""Head and relation as one image, which filters look over."""

from __future__ import annotations

from math import prod

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import conv2d, pad

from procrustes_kge.errors import InputError
from procrustes_kge.models.baselines.embedded import ChannelNorm, Embedded, Encoded, Filters, rows
from procrustes_kge.validation import check_divides, check_numbers, check_odd


class Convolved(Embedded):
    """A query read off the image of head and relation, compared by q · t + b_t."""

    def __init__(
        self,
        entities: int,
        relations: int,
        dim: int,
        channels: int,
        convolution: nn.Module,
        maps: tuple[int, int, int],
        dropouts: tuple[float, float, float],
    ) -> None:
        super().__init__(entities, relations, dim, dim, inverses=True)
        of_input, of_maps, of_query = dropouts
        self.biases = nn.Parameter(torch.zeros(entities))
        self.features = nn.Sequential(
            ChannelNorm(channels),
            nn.Dropout(of_input),
            convolution,
            ChannelNorm(maps[0]),
            nn.ReLU(),
            nn.Dropout2d(of_maps),
        )
        self.projection = nn.Sequential(
            nn.Linear(prod(maps), dim), nn.Dropout(of_query), nn.BatchNorm1d(dim), nn.ReLU()
        )
        for table in (self.entities, self.relations):
            nn.init.xavier_normal_(table)

    def encode(self, graph: object = None) -> Encoded:
        """Return the tables, and a bias for each entity."""
        return super().encode(graph)._replace(biases=self.biases)

    def query(self, encoded: Encoded, heads: Int[Tensor, " b"], relations: Int[Tensor, " b"]) -> Float[Tensor, "b d"]:
        """Return what the filters see, brought back to the length of a vector."""
        image = self.image(rows(encoded.entities, heads), rows(encoded.relations, relations))
        return self.projection(self.features(image).movedim(1, -1).flatten(1))  # place after place

    def image(
        self, heads: Float[Tensor, "b d"], relations: Float[Tensor, "b d"]
    ) -> Float[Tensor, "b channels height width"]:
        """Return the numbers of head and relation, arranged."""
        raise NotImplementedError


class ConvE(Convolved):
    """The head in rows, and the relation in rows below them (Dettmers et al., 2018)."""

    def __init__(
        self,
        entities: int,
        relations: int,
        dim: int = 200,
        height: int = 10,
        filters: int = 32,
        kernel: int = 3,
        input_dropout: float = 0.2,
        feature_dropout: float = 0.2,
        query_dropout: float = 0.3,
    ) -> None:
        check_numbers(1, dim=dim, height=height, filters=filters, kernel=kernel)
        _check_rows(dim, height, kernel)
        maps = (filters, 2 * height - kernel + 1, dim // height - kernel + 1)
        dropouts = (input_dropout, feature_dropout, query_dropout)
        super().__init__(entities, relations, dim, 1, Filters(1, filters, (kernel, kernel)), maps, dropouts)
        self.height = height

    def image(
        self, heads: Float[Tensor, "b d"], relations: Float[Tensor, "b d"]
    ) -> Float[Tensor, "b channels height width"]:
        """Return the head's rows above the relation's."""
        return torch.cat([heads, relations], dim=-1).unflatten(-1, (1, 2 * self.height, -1))


class InteractE(Convolved):
    """Numbers of head and relation side by side in several random orders, without edges (Vashishth et al., 2020)."""

    order: Int[Tensor, "permutations height width"]

    def __init__(
        self,
        entities: int,
        relations: int,
        dim: int = 200,
        permutations: int = 1,
        filters: int = 96,
        kernel: int = 9,
        input_dropout: float = 0.2,
        feature_dropout: float = 0.5,
        query_dropout: float = 0.5,
    ) -> None:
        check_numbers(1, dim=dim, permutations=permutations, filters=filters, kernel=kernel)
        check_odd(kernel=kernel)
        _check_wrapping(dim, kernel)
        size, dropouts = nearly_square(dim), (input_dropout, feature_dropout, query_dropout)
        maps, convolution = (permutations * filters, *size), SharedFilters(filters, kernel, size)
        super().__init__(entities, relations, dim, permutations, convolution, maps, dropouts)
        self.register_buffer("order", chequered(dim, permutations))

    def image(
        self, heads: Float[Tensor, "b d"], relations: Float[Tensor, "b d"]
    ) -> Float[Tensor, "b channels height width"]:
        """Return [h; r] in each of the orders."""
        numbers = torch.cat([heads, relations], dim=-1)
        # One after another: a number that occurs once has a gradient without a sum, whose order might change.
        images = [numbers.index_select(-1, order.flatten()).unflatten(-1, order.shape) for order in self.order]
        return torch.stack(images, dim=1)


class SharedFilters(nn.Module):
    """The same filters over each channel alone, around an image whose opposite edges meet."""

    turns: Int[Tensor, "pixels pixels"]
    folds: Int[Tensor, " kernel_squared"]

    def __init__(self, filters: int, kernel: int, size: tuple[int, int]) -> None:
        super().__init__()
        self.filters = nn.Parameter(nn.init.xavier_normal_(torch.empty(filters, 1, kernel, kernel)))
        pixels, offsets = (torch.cartesian_prod(*map(torch.arange, shape)) for shape in (size, (kernel, kernel)))
        apart = (pixels[:, None] - pixels) % torch.tensor(size)
        folded = (offsets - kernel // 2) % torch.tensor(size)
        # From the pixel where a filter stands to any other, and to those under each of its numbers.
        for name, steps in (("turns", apart), ("folds", folded)):
            self.register_buffer(name, steps[..., 0] * size[1] + steps[..., 1], persistent=False)

    def forward(self, image: Float[Tensor, "b channels height width"]) -> Float[Tensor, "b maps height width"]:
        """Return the feature maps, those of the first channel first."""
        return self.by_product(image) if image.is_cuda else self.by_filtering(image)

    def by_filtering(self, image: Float[Tensor, "b channels height width"]) -> Float[Tensor, "b maps height width"]:
        """Move the filters over each image."""
        channels, reach = image.shape[1], self.filters.shape[-1] // 2
        wrapped = pad(image, [reach] * 4, mode="circular")
        return conv2d(wrapped, self.filters.repeat(channels, 1, 1, 1), groups=channels)

    def by_product(self, image: Float[Tensor, "b channels height width"]) -> Float[Tensor, "b maps height width"]:
        """Do the same by one product with a matrix, from pixels to the maps of all filters.

        It has three to five times as many operations, but they are what a GPU does best: libraries filter a channel
        at a time ten times slower.
        """
        pixels, size = len(self.turns), image.shape[2:]
        flat = self.filters.flatten(1).T
        table = flat.new_zeros(pixels, flat.shape[1]).index_add(0, self.folds, flat)  # a filter as large as the image
        maps = (image.flatten(2) @ rows(table, self.turns).flatten(1)).unflatten(-1, (*size, -1))
        return maps.movedim(1, -2).flatten(-2).movedim(-1, 1)


def chequered(dim: int, permutations: int) -> Int[Tensor, "permutations height width"]:
    """Return random orders of [h; r] in which the two alternate: row i of order p starts with h if i + p is even."""
    height, width = nearly_square(dim)
    drawn = [torch.stack([torch.randperm(dim), dim + torch.randperm(dim)], dim=-1) for _ in range(permutations)]
    pairs = torch.stack(drawn).unflatten(1, (height, width // 2))
    head_first = (torch.arange(permutations)[:, None] + torch.arange(height)) % 2 == 0
    return torch.where(head_first[..., None, None], pairs, pairs.flip(-1)).flatten(2)


def nearly_square(dim: int) -> tuple[int, int]:
    """Return height and width of the image of 2 dim numbers, of even width, that is nearest to a square."""
    heights = [height for height in range(1, dim + 1) if dim % height == 0]
    # The first, which is wider than high, of two that are equally near.
    best = min(heights, key=lambda height: abs(height - 2 * dim // height))
    return best, 2 * dim // best


def _check_rows(dim: int, height: int, kernel: int) -> None:
    check_divides(dim, height, f"{height} rows", "height", least=height * kernel)
    rows, width = 2 * height, dim // height
    if kernel > min(rows, width):
        size = f"dimension {dim} in {height} rows makes an image of {rows} by {width}"
        raise InputError(f"{size}, expected sides of at least the kernel's {kernel}; try --kernel {min(rows, width)}")


def _check_wrapping(dim: int, kernel: int) -> None:
    least = kernel // 2  # no number is wrapped around more than once

    def fits(other: int) -> bool:
        return min(nearly_square(other)) >= least

    if not fits(dim):
        height, width = nearly_square(dim)
        near = next((each for step in range(1, dim) for each in (dim + step, dim - step) if fits(each)), None)
        tries = f"--kernel {2 * min(height, width) + 1}" + (f" or --dim {near}" if near else "")
        size = f"dimension {dim} makes an image of {height} by {width}"
        raise InputError(f"{size}, expected sides of at least {least} for kernel {kernel}; try {tries}")
