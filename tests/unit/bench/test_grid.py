import math

import pytest

from feda3i.bench import grid
from feda3i.bench.branching import family_of
from feda3i.bench.paper import published
from feda3i.errors import RecipeError


@pytest.mark.parametrize("name", grid.built_in_grids())
def test_every_grid_of_the_package_can_be_expanded(name):
    found = grid.load_grid(name)
    cells = grid.expand(found, real={setting.data for setting in found.settings.values()})
    often = len([row for row in found.rows if row not in found.once]) * len(found.seeds)
    assert len(cells) >= (often + len(found.once)) * len(found.settings)
    if found.protocol == "paper":
        assert all(cell.recipe.noise.seed == 0 for cell in cells)
    points = math.prod(len(values) for values in found.vary.values())
    row = "feda3i" if "feda3i" in found.rows else found.rows[-1]
    runs = {cell.digest for cell in cells if cell.row == row}
    assert len(runs) == points * len(found.settings) * len(found.seeds)


def test_rows_that_are_run_once_have_the_first_seed_only(tiny):
    cells = grid.expand(tiny("seeds=[4, 5]", "rows=['fedavg', 'gce', 'clean']", "once=['gce']"))
    assert [cell.seed for cell in cells if cell.row == "gce"] == [4]
    assert [cell.seed for cell in cells if cell.row == "clean"] == [4, 5]


def test_small_grids_warm_up_as_long_as_the_paper():
    for name in ("table2-small", "table3-small", "figure_r-small", "small40"):
        for cell in grid.expand(grid.load_grid(name, ["rows=['feda3i']", "seeds=[0]"])):
            recipe, data = cell.recipe, cell.recipe.data.options()
            steps = recipe.train.epochs * -(-data["cases"] // recipe.train.batch)
            assert 230 <= steps * recipe.method.options()["t1"] <= 270


def test_the_comparison_has_all_rows_of_the_paper():
    found = grid.load_grid("table2-small")
    rows = [row for row in found.rows if published(row, "SKIN N_S")]
    assert len(rows) == 15  # thirteen, and FedAvg with either loss
    assert all(published(row, setting) for row in rows for setting in found.settings)


def test_protocols_fix_or_vary_data_and_noise(tiny):
    cells = grid.expand(tiny("seeds=[0, 5]"))
    assert {cell.recipe.data.options()["seed"] for cell in cells} == {0}
    assert {cell.recipe.seed for cell in cells} == {0, 5}
    loose = grid.expand(tiny("seeds=[0, 5]", "protocol=everything"))
    assert all("seed" not in cell.recipe.data.options() for cell in loose)
    assert all(cell.recipe.noise.seed is None for cell in loose)


def test_values_that_vary_concern_all_rows_or_those_of_one_method(tiny):
    vary = "vary={'feda3i.r'=[0.1, 0.9], 'data.cases, train.epochs'=[[2, 4]]}"
    cells = grid.expand(tiny("rows=['fedavg', 'feda3i']", vary))
    assert len({cell.digest for cell in cells if cell.row == "fedavg"}) == 1
    feda3i = [cell.recipe.method.options()["r"] for cell in cells if cell.row == "feda3i"]
    assert feda3i == [0.1, 0.9]
    both = {(cell.recipe.data.options()["cases"], cell.recipe.train.epochs) for cell in cells}
    assert both == {(2, 4)}
    assert cells[0].column == "SKIN N_S, r 0.1, cases 2, epochs 4"


def test_a_row_wins_over_what_the_grid_sets_for_its_method(tiny):
    rows = "rows=['feda3i', 'feda3i,t1=2', 'fedprox,mu=0.5']"
    cells = grid.expand(tiny(rows, "feda3i.t1=4", "fedprox.mu=0.25"))
    assert [c.recipe.method.options().get("t1") for c in cells] == [4, 2, None]
    assert cells[2].recipe.method.options()["mu"] == 0.5


def test_a_default_that_is_written_out_makes_no_other_run(tiny):
    rows = "rows=['feda3i', 'feda3i,r=0.5', 'feda3i,loss=ce,weighting=full', 'feda3i,r=0.6']"
    digests = [cell.digest for cell in grid.expand(tiny(rows))]
    assert digests[0] == digests[1] == digests[2] != digests[3]
    unmoved = grid.expand(tiny(rows, "redraw.b0=[1]"))
    assert [cell.digest for cell in unmoved] == digests, "nothing is redrawn"
    moved = grid.expand(tiny(rows, "redraw.on=true"))
    assert not {cell.digest for cell in moved} & set(digests)


def test_clean_masks_are_the_same_under_every_noise(tiny):
    found = tiny()
    setting = found.settings["SKIN N_S"]
    other = setting.model_copy(update={"set": ("noise.setting=skin-ne",)})
    both = found.model_copy(update={"settings": {"SKIN N_S": setting, "SKIN N_E": other}})
    rows = [(cell.row, cell.digest) for cell in grid.expand(both)]
    assert len({digest for row, digest in rows if row == "clean"}) == 1
    assert len({digest for row, digest in rows if row == "fedavg"}) == 2


def test_shards_divide_a_grid_and_keep_families_together():
    cells = grid.expand(grid.load_grid("table3-small"))
    families = [family_of(cell.recipe) for cell in cells]
    parts = [grid.shard(cells, families, f"{i}/4") for i in range(1, 5)]
    assert sorted(cell.name for part in parts for cell in part) == sorted(c.name for c in cells)
    owners = [{family_of(cell.recipe) for cell in part} for part in parts]
    assert not any(a & b for k, a in enumerate(owners) for b in owners[k + 1 :])
    for part in ("0/2", "3/2", "half", "1/0"):
        with pytest.raises(RecipeError, match="--shard: expected I"):
            grid.shard([1, 2], ["a", "b"], part)


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        ("table3-small", ["data.skin=/nowhere"], "there is nothing at '/nowhere'"),
        ("table3-small", ["seeds=[]"], "seeds"),
        ("table3-small", ["protocol=mine"], "protocol"),
        ("table3-small", ["rounds"], "expected key=value"),
        ("table3-small", ["vary={'data.cases, rounds'=[1]}"], "a list of values"),
        ("table3-small", [f"seeds={list(range(200_000))}"], "at most 20,000 runs, found 6,400,000"),
        ("table2", [], r"add data\.breast=PATH data\.skin=PATH"),
        ("table3-smal", [], "did you mean 'table3-small'"),
    ],
)
def test_a_wrong_grid_says_what_is_wrong(name, changes, words):
    with pytest.raises(RecipeError, match=words):
        grid.expand(grid.load_grid(name, changes))
