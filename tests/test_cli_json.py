"""What ``--json`` prints keeps its keys: a change here is a new ``schema_version``."""

import dataclasses
import json
from importlib.metadata import requires
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from packaging.requirements import Requirement

import bayesmdp as bm
from bayesmdp.cli import main

LOG = "id,t,s,a,r\n1,0,x,u,0\n1,1,y,u,1\n1,2,z,v,0\n2,0,x,v,0\n2,1,y,v,0\n"
FEW = ("--draws", "64")
KNOWN = ("--discount", "0.9", "--terminal", "z")
QUICK = ("--steps", "1", "--start", "nominal")
MEASURED = " ".join(
    f"{kind}{name}{error}"
    for kind in ("start_",)
    for name in ("value", "epistemic_sd", "aleatoric_sd", "total_sd")
    for error in ("", "_mcse")
)
STATE = MEASURED.replace("start_", "states[].") + (
    " states[] states[].occupancy states[].occupancy_mcse states[].state"
)
EVALUATION = (
    f"{MEASURED} {STATE} interval interval[] device exact n_draws "
    "n_endless n_retried n_unsolved notes prior_share seed solver states "
    "variance_reduction"
)
OPTIMISATION = (
    "chosen_stage chosen_start converged draws_used evaluation gap gap_mcse "
    "interrupted objective objective_mcse objective_value outcome seconds seed "
    "start_value start_value_mcse status steps upper_bound upper_bound_mcse "
    + " ".join(f"evaluation.{key}" for key in EVALUATION.split())
)
RUN = (
    "columns columns.{} criterion cycle discount horizon log_sha256 min_count "
    "n_actions n_available n_distinct n_states n_transitions notes notes[] path prior "
    "results rewards seed source source.files source.files[] source.labels start "
    "terminal terminal[] versions versions.bayesmdp versions.numpy versions.python "
    "warnings warnings[]"
)
FINDINGS = (
    "findings findings[] findings[].code findings[].column findings[].count "
    "findings[].first_row findings[].message findings[].remedy findings[].severity "
    "findings[].where"
)
ROWS = (
    "rows rows[] rows[].aleatoric_sd rows[].difference rows[].difference_mcse "
    "rows[].epistemic_sd rows[].interval rows[].interval[] rows[].difference_interval "
    "rows[].difference_interval[] rows[].name rows[].probability_better "
    "rows[].probability_tied rows[].low_support rows[].value rows[].value_mcse"
)
CURVES = ("ceac", "ceac_mcse", "expected_loss", "expected_loss_mcse")  # by policy
CURVE = ("step", "observed", "predicted", "low", "high")
SHARES = ("observed", "predicted", "predicted_sd", "told")
CHECK = " ".join(  # the log is too small for tests
    [
        "run problems predicted_interval[] endings[] notes[] prevalence.step[] "
        "prevalence.state[]",
        *(f"survival.{x}[]" for x in CURVE),
        *(f"prevalence.{x}[] prevalence.{x}[][]" for x in SHARES),
    ]
    + [
        f"{start}{x.name}"
        for start, kind in (
            ("", bm.diagnostics.Check),
            ("endings[].", bm.diagnostics.Ending),
            ("survival.", bm.diagnostics.Survival),
            ("prevalence.", bm.diagnostics.Prevalence),
            ("actions.", bm.diagnostics.ActionVariance),
            ("order.", bm.diagnostics.MarkovOrder),
        )
        for x in dataclasses.fields(kind)
    ]
)

KEYS = {
    "demo": "best_true_value cautions cautions[] comparison comparison.min_count "
    "comparison.reference html json "
    f"{FINDINGS} {ROWS.replace('rows', 'comparison.rows')} "
    "n_pairs n_patients n_transitions observed_error observed_return predictions "
    "predictions[] predictions[].interval predictions[].interval[] "
    "predictions[].model predictions[].policy predictions[].predicted_mcse "
    "predictions[].predicted_gain predictions[].predicted_value "
    "predictions[].true_gain predictions[].true_value search search.chosen_start "
    "search.converged search.starts search.starts[] search.status search.steps "
    "search.upper_bound seed",
    "validate": f"{FINDINGS} n_rows origin worst",
    "fit": RUN,
    "fit --init": "n_rows task",
    "info run": RUN + " results[]",
    "info": "bayesmdp platform python threads device cuda "
    + " ".join(Requirement(x).name for x in requires("bayesmdp") or ()),
    "evaluate": f"run policy {EVALUATION}",
    "optimise": f"policy policy[] policy[].action policy[].probability policy[].state "
    f"result run {OPTIMISATION}",
    "information": "run approximation best evpi evpi_bound evpi_bound_mcse evpi_mcse "
    "n_confirmed n_patients n_policies n_visits n_visits[] seconds pairs pairs[] "
    "pairs[].action pairs[].confirmed pairs[].evppi pairs[].evppi_mcse pairs[].evsi "
    "pairs[].evsi[] pairs[].evsi_mcse pairs[].evsi_mcse[] pairs[].state states "
    "states[] states[].action states[].confirmed states[].patients_evsi states[].state "
    "states[].switch_evsi states[].switch_evsi_mcse states[].visits sampling "
    "sampling.cost sampling.population sampling.setup sampling.studies "
    "sampling.studies[] sampling.studies[].action sampling.studies[].enbs "
    "sampling.studies[].enbs_mcse sampling.studies[].evsi sampling.studies[].evsi_mcse "
    "sampling.studies[].n_visits sampling.studies[].state",
    "improve": "baseline changes improvement improvement_interval "
    "improvement_interval[] improvement_mcse policy policy[] policy[].action "
    "policy[].probability policy[].state probability_better run tail tail_improvement "
    "tail_improvement_mcse optimisation "
    + " ".join(f"optimisation.{key}" for key in OPTIMISATION.split()),
    "compare": f"min_count n_draws reference result {ROWS} run seed",
    "compare-priors": "actions actions[] actions[][] agreement agreement[] "
    "agreement[][] best fallback min_count n_folds n_held_out new_share "
    "new_share_error notes rows rows[] run seed "
    + " ".join(f"rows[].{x.name}" for x in dataclasses.fields(bm.diagnostics.PriorRow)),
    "cost-effectiveness": "best best[] cost effect evpi evpi[] evpi_mcse evpi_mcse[] "
    "frontier frontier[] n_draws n_left_out per result run table table[] thresholds "
    "thresholds[] units units[] table[].cost_interval[] table[].effect_interval[] "
    + " ".join(f"{x} {x}.{{}}" for x in CURVES)
    + " "
    + " ".join(
        f"table[].{x.name}"
        for x in dataclasses.fields(bm.economics.CostEffectivenessRow)
    ),
    "check": CHECK,
    "prior-sensitivity": "baseline flip_share fragile min_count n_draws notes policy "
    "rows rows[] rows[].agreement rows[].gain_interval rows[].gain_interval[] "
    "rows[].name rows[].predicted_value run seed "
    + " ".join(
        f"rows[].{name}{error}"
        for name in (
            *("value", "epistemic_sd", "aleatoric_sd"),
            *("gain", "gain_epistemic_sd", "probability_better"),
        )
        for error in ("", "_mcse")
    ),
    "negative-control": "claimed_gain claimed_probability exchangeable min_count "
    "n_draws notes null_claims null_gains null_gains[] null_probabilities "
    "null_probabilities[] p_value p_value_mcse permute prior reward run seed",
    "cross-fit": "fold_gains[] fold_probabilities[] fold_sds[] fold_unjudged[] "
    "interval[] run "
    + " ".join(x.name for x in dataclasses.fields(bm.diagnostics.CrossFit)),
    "off-policy": "n_episodes n_folds n_groups n_open name notes notes[] "
    "observed_se observed_value reward run seed unlogged "
    + " ".join(
        f"{field}{x}"
        for field in ("estimates", "intervals", "effective_sample_size")
        for x in ("", ".IS", ".WIS", ".PDIS", ".PDWIS", ".DR", ".WDR")
    ),
    "report": "comparison_made html json policies policies[] prior_sensitivity "
    "reference run",
}
BESIDE = {  # programs that are run as modules, and not installed
    "studies": "directory seconds skipped skipped[] study summary timed verdicts "
    "verdicts[]",
    "studies all": "page studies studies[] studies[].problem studies[].seconds "
    "studies[].skipped studies[].skipped[] studies[].study studies[].verdicts "
    "studies[].verdicts[]",
    "benchmarks": "failed load load[] made_with made_with.{} parts parts.{} problem "
    "quick rows rows[] rows[].check rows[].correct rows[].measured rows[].met "
    "rows[].part rows[].rival rows[].sense rows[].target rows[].unit rows[].what "
    "skipped whole",
}


def keys(record: Any, where: str = "", free: frozenset[str] = frozenset()) -> set[str]:
    """Paths of all keys; names in ``free`` have keys of their users' choice."""
    found = {where} if where else set()
    if isinstance(record, dict):
        for name, value in record.items():
            path = f"{where}.{name}" if where else name
            if where in free:
                found.add(f"{where}.{{}}")
            else:
                found |= keys(value, path, free)
    elif isinstance(record, list):
        for value in record:
            found |= keys(value, f"{where}[]", free)
    return found


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    here = tmp_path_factory.mktemp("json")
    log, run = here / "log.csv", str(here / "run")
    log.write_text(LOG)
    several = here / "several.toml"
    several.write_text(
        'discount = 0.9\nterminal = ["z"]\n[reward]\ncost.state.x = 1\nqaly = "alive"'
    )
    costs = ("--task", str(several), "-o", str(here / "costs"))
    for call in (
        ("fit", str(log), *KNOWN, "-o", run),
        ("optimise", run, *QUICK),
        ("fit", str(log), *costs),
    ):
        assert CliRunner().invoke(main, call).exit_code in (0, 1)
    return here


@pytest.fixture(autouse=True)
def _there(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(here)


CALLS: dict[str, tuple[str, ...]] = {
    "validate": ("validate", "log.csv"),
    "fit --init": ("fit", "log.csv", "--init", "task.toml"),
    "fit": ("fit", "log.csv", *KNOWN, "-o", "new"),
    "evaluate": ("evaluate", "run", "mle", *FEW),
    "optimise": ("optimise", "run", *QUICK, "--overwrite"),
    "information": ("information", "run", "--visits", "10", "--population", "900"),
    "improve": ("improve", "run", "--effort", "quick", "--baseline", "uniform"),
    "compare": ("compare", "run", "mle", "optimised", *FEW),
    "compare-priors": ("compare-priors", "run", "log.csv", "--folds", "2"),
    "cost-effectiveness": ("cost-effectiveness", "costs", "uniform", "behaviour", *FEW),
    "check": ("check", "run", "log.csv", *FEW, "--permutations", "9"),
    "prior-sensitivity": ("prior-sensitivity", "run", "mle", "--prior", "scaled", *FEW),
    "negative-control": ("negative-control", "run", "log.csv", "--permutations", "3"),
    "cross-fit": ("cross-fit", "run", "log.csv"),
    "off-policy": ("off-policy", "run", "log.csv", "--policy", "uniform"),
    "report": ("report", "run", "-o", "page.html", *FEW),
    "info run": ("info", "run"),
    "info": ("info",),
}


@pytest.mark.parametrize("call", CALLS)
def test_json_has_the_keys_it_had(call: str) -> None:
    result = CliRunner().invoke(main, [*CALLS[call], "--json"])
    assert result.exit_code in (0, 1), result.output
    record = json.loads(result.stdout, parse_constant=pytest.fail)
    assert record.pop("schema_version") == 1
    found = keys(record, free=frozenset({"columns", *CURVES}))
    assert sorted(found) == sorted(KEYS[call].split())


def test_a_study_s_json_has_the_keys_it_had(monkeypatch: pytest.MonkeyPatch) -> None:
    import studies
    from studies.__main__ import main as run
    from studies.all_studies import Part

    said = "a table\n**Verdict:** as printed"
    outcome = studies.Outcome(Path("reproduced/beliefs"), said, 1.5, ("no picture",))
    part = Part("beliefs", "Beliefs", outcome, None)
    monkeypatch.setattr(studies, "run_study", lambda *_, **__: outcome)
    monkeypatch.setattr("studies.__main__.run_all", lambda *_, **__: (part,))
    for call, name in (("studies", "beliefs"), ("studies all", "all")):
        result = CliRunner().invoke(run, [name, "--json"])
        assert result.exit_code == 0, result.output
        record = json.loads(result.stdout)
        assert record.pop("schema_version") == 1
        assert sorted(keys(record)) == sorted(BESIDE[call].split())


def test_a_benchmark_s_json_has_the_keys_it_had(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from benchmarks import Row, scale
    from benchmarks.__main__ import main as run

    row = Row("x", 1.0, "s", "<=", 2.0, "value", True, "rival")
    monkeypatch.setitem(scale.PARTS, "gamma", lambda _: scale.Found([row], {"x": 1}))
    asked = ["gamma", "--quick", "--out", "bench.json", "--json"]
    result = CliRunner().invoke(run, asked)
    assert result.exit_code == 0, result.output
    record = json.loads(result.stdout)
    assert record.pop("schema_version") == 1
    found = keys(record, free=frozenset({"made_with", "parts"}))
    assert sorted(found) == sorted(BESIDE["benchmarks"].split())


def test_every_command_is_here() -> None:
    commands = {call.split()[0] for call in KEYS}
    assert commands == set(main.list_commands(click.Context(main)))
    assert {*CALLS, "demo"} == set(KEYS)  # the demonstration takes long: integration


def test_a_new_key_would_be_noticed() -> None:
    assert keys({"a": [{"b": 1}, {"c": {}}]}) == {"a", "a[]", "a[].b", "a[].c"}
    assert keys({"a": {"x": 1}}, free=frozenset({"a"})) == {"a", "a.{}"}


def test_the_page_s_data_lie_beside_it() -> None:
    CliRunner().invoke(main, ["report", "run", "-o", "page.html", *FEW])
    data = json.loads(Path("page.json").read_text())
    kept = bm.storage.load_result("run", "comparison")
    assert data["schema_version"] == 1
    assert data["summary"]["reference"] == kept.reference
    assert "</html>" in Path("page.html").read_text()
