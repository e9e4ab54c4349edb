"""A benchmark is known by its counts, whatever else a copy of it has of its own."""

import os
from dataclasses import replace

import pytest
import torch

from procrustes_kge.graphs.reading import read_graph, write_graph
from procrustes_kge.training.benchmarks import BENCHMARKS, OTHER, kind_of_graph
from procrustes_kge.training.recipes import OWN, recipe
from toys import as_large_as, rotated_graph

each_benchmark = pytest.mark.parametrize("name", BENCHMARKS)


@each_benchmark
def test_counts_make_a_benchmark(name):
    assert kind_of_graph(as_large_as(name)) == name


@each_benchmark
@pytest.mark.parametrize("split", ["train", "valid", "test"])
def test_a_graph_with_one_triple_less_is_another(name, split):
    graph = as_large_as(name)
    assert kind_of_graph(replace(graph, **{split: graph.split(split)[1:]})) == OTHER


def test_any_other_graph_is_no_benchmark():
    for graph in (None, rotated_graph(), as_large_as("umls")):
        assert kind_of_graph(graph) == OTHER


@pytest.mark.parametrize("name", [name for name in OWN if name.startswith("paper")])
def test_the_papers_settings_for_other_graphs_are_those_for_one_of_its_two(name):
    assert recipe(name, None, "cpu") in [recipe(name, as_large_as(benchmark), "cpu") for benchmark in BENCHMARKS]


@each_benchmark
@pytest.mark.slow
@pytest.mark.skipif("PROCRUSTES_DATA" not in os.environ, reason="needs the datasets' files")
def test_a_copy_with_lines_in_another_order_is_the_benchmark(name, tmp_path):
    graph = read_graph(name)
    shuffled = {split: triples[torch.randperm(len(triples))] for split, triples in splits(graph).items()}
    write_graph(replace(graph, **shuffled), tmp_path / "mine")
    copy = read_graph(tmp_path / "mine")
    assert copy.checksum != graph.checksum  # names are numbered as they appear
    assert kind_of_graph(copy) == kind_of_graph(graph) == name


def splits(graph):
    return {split: graph.split(split) for split in ("train", "valid", "test")}
