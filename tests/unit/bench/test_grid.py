import pytest

from feda3i.bench import grid
from feda3i.bench.branching import family_of
from feda3i.errors import RecipeError


@pytest.mark.parametrize("name", grid.built_in_grids())
def test_every_grid_of_the_package_can_be_expanded(name):
    found = grid.load_grid(name)
    cells = grid.expand(found, real={setting.data for setting in found.settings.values()})
    often = len([row for row in found.rows if row not in found.once]) * len(found.seeds)
    assert len(cells) >= (often + len(found.once)) * len(found.settings)
    if found.protocol == "paper":
        assert all(cell.recipe.noise.seed == 0 for cell in cells)
    points = 1
    for values in found.vary.values():
        points *= len(values)
    row = "feda3i" if "feda3i" in found.rows else found.rows[-1]
    runs = {cell.digest for cell in cells if cell.row == row}
    assert len(runs) == points * len(found.settings) * len(found.seeds)


def test_rows_that_are_run_once_have_the_first_seed_only(grid_file):
    changes = ["seeds=[4, 5]", "rows=['fedavg', 'gce', 'clean']", "once=['gce']"]
    cells = grid.expand(grid.load_grid(str(grid_file), changes))
    assert [cell.seed for cell in cells if cell.row == "gce"] == [4]
    assert [cell.seed for cell in cells if cell.row == "clean"] == [4, 5]


def test_a_grid_of_too_many_runs_is_refused_before_they_are_made(grid_file):
    grid_with_many = grid.load_grid(str(grid_file), [f"seeds={list(range(200_000))}"])
    with pytest.raises(RecipeError, match="at most 20,000 runs, found 1,000,000"):
        grid.expand(grid_with_many)


def test_small_grids_warm_up_as_long_as_the_paper():
    for name in ("table2-small", "table3-small", "figure_r-small", "small40"):
        for cell in grid.expand(grid.load_grid(name, ["rows=['feda3i']", "seeds=[0]"])):
            if cell.row == "feda3i":
                recipe, data = cell.recipe, cell.recipe.data.options()
                steps = recipe.train.epochs * -(-data["cases"] // recipe.train.batch)
                assert 230 <= steps * recipe.method.options()["t1"] <= 270


def test_the_comparison_has_all_rows_of_the_paper():
    from feda3i.bench.paper import published

    found = grid.load_grid("table2-small")
    rows = [row for row in found.rows if published(row, "SKIN N_S")]
    assert len(rows) == 15  # thirteen, and FedAvg with either loss
    assert all(published(row, setting) for row in rows for setting in found.settings)


def test_protocols_fix_or_vary_data_and_noise(grid_file):
    cells = grid.expand(grid.load_grid(str(grid_file), ["seeds=[0, 5]"]))
    assert {cell.recipe.data.options()["seed"] for cell in cells} == {0}
    assert {cell.recipe.seed for cell in cells} == {0, 5}
    loose = grid.expand(grid.load_grid(str(grid_file), ["seeds=[0, 5]", "protocol=everything"]))
    assert all("seed" not in cell.recipe.data.options() for cell in loose)
    assert all(cell.recipe.noise.seed is None for cell in loose)


def test_a_value_of_one_method_leaves_the_runs_of_others_alone(grid_file):
    cells = grid.expand(
        grid.load_grid(
            str(grid_file), ["rows=['fedavg', 'feda3i']", "vary={'feda3i.r'=[0.1, 0.9]}"]
        )
    )
    fedavg = {cell.digest for cell in cells if cell.row == "fedavg"}
    feda3i = [cell.recipe.method.options()["r"] for cell in cells if cell.row == "feda3i"]
    assert len(fedavg) == 1
    assert feda3i == [0.1, 0.9]


def test_a_row_wins_over_what_the_grid_sets_for_its_method(grid_file):
    rows = "rows=['feda3i', 'feda3i,t1=2', 'fedprox,mu=0.5']"
    changes = [rows, "seeds=[0]", "feda3i.t1=4", "fedprox.mu=0.25"]
    cells = grid.expand(grid.load_grid(str(grid_file), changes))
    assert [c.recipe.method.options().get("t1") for c in cells] == [4, 2, None]
    assert cells[2].recipe.method.options()["mu"] == 0.5


def test_a_default_that_is_written_out_makes_no_other_run(grid_file):
    rows = "rows=['feda3i', 'feda3i,r=0.5', 'feda3i,loss=ce,weighting=full', 'feda3i,r=0.6']"
    digests = [cell.digest for cell in grid.expand(grid.load_grid(str(grid_file), [rows]))]
    assert digests[0] == digests[1] == digests[2] != digests[3]
    options = grid.load_grid(str(grid_file), [rows, "redraw.b0=[1]"])
    assert [cell.digest for cell in grid.expand(options)] == digests, "nothing is redrawn"
    moved = grid.load_grid(str(grid_file), [rows, "redraw.on=true"])
    assert not {cell.digest for cell in grid.expand(moved)} & set(digests)


def test_clean_masks_are_the_same_under_every_noise(grid_file):
    found = grid.load_grid(str(grid_file))
    setting = found.settings["SKIN N_S"]
    other = setting.model_copy(update={"set": ("noise.setting=skin-ne",)})
    both = found.model_copy(update={"settings": {"SKIN N_S": setting, "SKIN N_E": other}})
    by_row = {}
    for cell in grid.expand(both):
        by_row.setdefault(cell.row, set()).add(cell.digest)
    assert {row: len(digests) for row, digests in by_row.items()} == {
        **dict.fromkeys(found.rows, 2),
        "clean": 1,
    }


def test_shards_are_all_of_the_grid_and_keep_families_together():
    cells = grid.expand(grid.load_grid("table3-small"))
    families = [family_of(cell.recipe) for cell in cells]
    parts = [grid.shard(cells, families, f"{i}/4") for i in range(1, 5)]
    assert sorted(cell.name for part in parts for cell in part) == sorted(c.name for c in cells)
    owners = [{family_of(cell.recipe) for cell in part} for part in parts]
    assert not any(a & b for k, a in enumerate(owners) for b in owners[k + 1 :])


@pytest.mark.parametrize("part", ["0/2", "3/2", "half", "1/0"])
def test_a_shard_that_is_none_is_refused(part):
    with pytest.raises(RecipeError, match="--shard: expected I"):
        grid.shard([1, 2], ["a", "b"], part)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (["data.skin=/nowhere"], "there is nothing at '/nowhere'"),
        (["seeds=[]"], "seeds"),
        (["protocol=mine"], "protocol"),
        (["rounds"], "expected key=value"),
    ],
)
def test_a_wrong_grid_says_what_is_wrong(grid_file, changes, words):
    with pytest.raises(RecipeError, match=words):
        grid.load_grid(str(grid_file), changes)


def test_full_grids_want_real_data():
    with pytest.raises(RecipeError, match=r"add data\.breast=PATH data\.skin=PATH"):
        grid.expand(grid.load_grid("table2"))


def test_an_unknown_grid_names_the_nearest():
    with pytest.raises(RecipeError, match="did you mean 'table3-small'"):
        grid.load_grid("table3-smal")


def test_data_that_a_grid_does_not_have_is_refused_by_name(tmp_path):
    with pytest.raises(RecipeError, match=r"no data 'breast'; it takes: data\.skin=DIR"):
        grid.load_grid("figure_r-small", [f"data.breast={tmp_path}"])
    assert grid.load_grid("figure_r-small", ["data.size=32"]).set[-1] == "data.size=32"
