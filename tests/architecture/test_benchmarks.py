from benchmarks import figure

KEPT = figure.Figure("start", 1.25, "s", figure.Ceiling(2), "empty data directory")
MISSED = figure.Figure("group commit", 4.9, "x", figure.Floor(5), "64 waiting")


def test_a_figure_on_its_line_is_met() -> None:
    assert figure.Ceiling(2).met_by(2)
    assert figure.Floor(5).met_by(5)


def test_the_table_shows_value_pass_line_and_limits_of_each_figure() -> None:
    assert figure.table([KEPT, MISSED]).splitlines() == [
        "      figure        value   pass line  limits",
        "pass  start         1.25 s  <= 2 s     empty data directory",
        "MISS  group commit  4.9 x   >= 5 x     64 waiting",
    ]
    assert (KEPT.met, MISSED.met) == (True, False)


def test_what_could_not_be_measured_is_shown_as_such() -> None:
    skipped = figure.Figure(
        "hermes", 0.0, "ms", figure.Ceiling(30), "", not_measured="hermes is not installed"
    )
    assert figure.table([skipped]).splitlines()[1] == (
        "SKIP  hermes  not measured  <= 30 ms   hermes is not installed"
    )
    assert not skipped.met
