"""Head and relation as one image, and filters that are moved over it."""

from dataclasses import dataclass
from math import isqrt, prod
from typing import Annotated

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import conv2d, pad

from procrustes_kge.errors import InputError
from procrustes_kge.graphs.graph import Graph
from procrustes_kge.models.baselines.embedded import Baseline, Encoded, ModelOptions, rows
from procrustes_kge.models.baselines.layers import ChannelNorm, Dropout, Dropout2d, Filters, Linear, RandomSource
from procrustes_kge.models.predictor import Ids
from procrustes_kge.validation import check_divides, check_odd

Image = Float[Tensor, "b channels height width"]


class Convolved(Baseline):
    """A query vector read off the image of head and relation, compared by q · t + b_t."""

    @dataclass(frozen=True)
    class Options(ModelOptions):
        kernel: Annotated[int, "width of a filter"] = 3  # ConvE's
        filters: Annotated[int, "number of filters"] = 32  # ConvE's
        input_dropout: Annotated[float, "dropout of the model's input"] = 0.0  # differs by graph
        feature_dropout: Annotated[float, "dropout of feature maps"] = 0.0  # differs by graph
        query_dropout: Annotated[float, "dropout of the query vector"] = 0.0  # differs by graph

    def __init__(
        self, graph: Graph, options: Options, random: RandomSource, channels: int, filters: nn.Module, maps: list[int]
    ) -> None:
        super().__init__(graph, options, random)
        self.biases = nn.Parameter(torch.zeros(len(graph.entities)))
        self.features = nn.Sequential(
            *(ChannelNorm(channels), Dropout(options.input_dropout, random), filters),
            *(ChannelNorm(maps[0]), nn.ReLU(), Dropout2d(options.feature_dropout, random)),
        )
        self.projection = nn.Sequential(
            *(Linear(prod(maps), options.dim, random), Dropout(options.query_dropout, random)),
            *(nn.BatchNorm1d(options.dim), nn.ReLU()),
        )
        self.draw_tables()

    def query(self, encoded: Encoded, heads: Ids, relations: Ids) -> Float[Tensor, "b d"]:
        image = self.image(rows(encoded.entities, heads), rows(encoded.relations, relations))
        return self.projection(self.features(image).movedim(1, -1).flatten(1))  # place after place

    def image(self, heads: Float[Tensor, "b d"], relations: Float[Tensor, "b d"]) -> Image:
        """Return the numbers of head and relation, arranged."""
        raise NotImplementedError


class ConvE(Convolved):
    """The head in rows, and the relation in rows below them (Dettmers et al., 2018)."""

    @dataclass(frozen=True)
    class Options(Convolved.Options):
        # 200 numbers make an image of 20 by 20.
        height: Annotated[int, "rows of the image that a head is reshaped to"] = 10

        def __post_init__(self) -> None:
            super().__post_init__()
            check_divides(self.dim, self.height, f"{self.height} rows", "height", least=self.height * self.kernel)
            rows, width = 2 * self.height, self.dim // self.height
            if self.kernel > (side := min(rows, width)):
                size = f"dimension {self.dim} in {self.height} rows makes an image of {rows} by {width}"
                raise InputError(f"{size}, expected sides of at least the kernel's {self.kernel}; try --kernel {side}")

    def __init__(self, graph: Graph, options: Options, random: RandomSource) -> None:
        height, kernel = options.height, options.kernel
        maps = [options.filters, 2 * height - kernel + 1, options.dim // height - kernel + 1]
        super().__init__(graph, options, random, 1, Filters(1, options.filters, (kernel, kernel), random), maps)
        self.height = height

    def image(self, heads: Float[Tensor, "b d"], relations: Float[Tensor, "b d"]) -> Image:
        return torch.cat([heads, relations], dim=-1).unflatten(-1, (1, 2 * self.height, -1))


class InteractE(Convolved):
    """Numbers of head and relation side by side in several random orders, without edges (Vashishth et al., 2020)."""

    @dataclass(frozen=True)
    class Options(Convolved.Options):
        permutations: Annotated[int, "number of permutations of head and relation"] = 1  # each costs as much again

        def __post_init__(self) -> None:
            super().__post_init__()
            check_odd(kernel=self.kernel)
            least, dim = self.kernel // 2, self.dim  # no number is wrapped around more than once
            height, width = nearly_square(dim)
            if min(height, width) < least:
                others = (each for step in range(1, dim) for each in (dim + step, dim - step))
                near = next((each for each in others if min(nearly_square(each)) >= least), None)
                tries = f"--kernel {2 * min(height, width) + 1}" + (f" or --dim {near}" if near else "")
                size = f"dimension {dim} makes an image of {height} by {width}"
                raise InputError(f"{size}, expected sides of at least {least} for kernel {self.kernel}; try {tries}")

    order: Int[Tensor, "permutations height width"]

    def __init__(self, graph: Graph, options: Options, random: RandomSource) -> None:
        size, permutations = nearly_square(options.dim), options.permutations
        filters = SharedFilters(options.filters, options.kernel, size, random)
        super().__init__(graph, options, random, permutations, filters, [permutations * options.filters, *size])
        self.register_buffer("order", chequered(options.dim, permutations, random))

    def image(self, heads: Float[Tensor, "b d"], relations: Float[Tensor, "b d"]) -> Image:
        numbers = torch.cat([heads, relations], dim=-1)
        # One after another: a number that occurs once has a gradient without a sum, whose order might change.
        images = [numbers.index_select(-1, order.flatten()).unflatten(-1, order.shape) for order in self.order]
        return torch.stack(images, dim=1)


class SharedFilters(nn.Module):
    """The same filters over each channel alone, around an image whose opposite edges meet."""

    shifts: Int[Tensor, "pixels pixels"]
    folds: Int[Tensor, " kernel_squared"]

    def __init__(self, filters: int, kernel: int, size: tuple[int, int], random: RandomSource) -> None:
        super().__init__()
        drawn = nn.init.xavier_normal_(torch.empty(filters, 1, kernel, kernel), generator=random.on("cpu"))
        self.filters = nn.Parameter(drawn)
        pixels, offsets = (torch.cartesian_prod(*map(torch.arange, shape)) for shape in (size, (kernel, kernel)))
        apart = (pixels[:, None] - pixels) % torch.tensor(size)
        folded = (offsets - kernel // 2) % torch.tensor(size)
        # From the pixel where a filter stands to any other, and to those under each of its numbers.
        for name, steps in (("shifts", apart), ("folds", folded)):
            self.register_buffer(name, steps[..., 0] * size[1] + steps[..., 1], persistent=False)

    def forward(self, image: Image) -> Float[Tensor, "b maps height width"]:
        """Return the feature maps, those of the first channel first."""
        return self.by_product(image) if image.is_cuda else self.by_filtering(image)

    def by_filtering(self, image: Image) -> Float[Tensor, "b maps height width"]:
        """Move the filters over each image."""
        channels, reach = image.shape[1], self.filters.shape[-1] // 2
        wrapped = pad(image, [reach] * 4, mode="circular")
        return conv2d(wrapped, self.filters.repeat(channels, 1, 1, 1), groups=channels)

    def by_product(self, image: Image) -> Float[Tensor, "b maps height width"]:
        """Do the same by one product with a matrix, from pixels to the maps of all filters.

        It has three to five times as many operations, but they are what a GPU does best: libraries filter a channel
        at a time ten times slower.
        """
        pixels, size = len(self.shifts), image.shape[2:]
        flat = self.filters.flatten(1).T
        table = flat.new_zeros(pixels, flat.shape[1]).index_add(0, self.folds, flat)  # a filter as large as the image
        maps = (image.flatten(2) @ rows(table, self.shifts).flatten(1)).unflatten(-1, (*size, -1))
        return maps.movedim(1, -2).flatten(-2).movedim(-1, 1)


def chequered(dim: int, permutations: int, random: RandomSource) -> Int[Tensor, "permutations height width"]:
    """Return random orders of [h; r] in which the two alternate: row i of order p starts with h if i + p is even."""
    (height, width), generator = nearly_square(dim), random.on("cpu")
    drawn = [torch.randperm(dim, generator=generator) for _ in range(2 * permutations)]
    orders = torch.stack(drawn).view(permutations, 2, dim) + torch.tensor([[0], [dim]])  # of h, and of r behind it
    pairs = orders.mT.unflatten(1, (height, width // 2))
    head_first = (torch.arange(permutations)[:, None] + torch.arange(height)) % 2 == 0
    return torch.where(head_first[..., None, None], pairs, pairs.flip(-1)).flatten(2)


def nearly_square(dim: int) -> tuple[int, int]:
    """Return height and width of the image of 2 dim numbers, of even width, that is nearest to a square."""
    small = [height for height in range(1, isqrt(dim) + 1) if dim % height == 0]
    heights = [*small, *(dim // height for height in reversed(small))]
    # The first, which is wider than high, of two that are equally near.
    best = min(heights, key=lambda height: abs(height - 2 * dim // height))
    return best, 2 * dim // best
