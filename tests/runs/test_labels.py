"""Labels: as short as they can be, and never the same for two members."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from adaqn.members.hyperparameters import Convolution, Hyperparameters, grid
from adaqn.runs.display.labels import member_labels, number_label


def test_only_what_differs_is_named() -> None:
    members = grid(hidden=[(25, 25), (200, 200)])
    assert member_labels(members) == ["25x25", "200x200"]
    members = grid(hidden=[(25, 25), (200, 200)], activation=["relu", "tanh"])
    assert member_labels(members) == ["25x25 relu", "25x25 tanh", "200x200 relu", "200x200 tanh"]


def test_a_hyperparameter_that_adds_nothing_is_left_out() -> None:
    members = [
        Hyperparameters(hidden=(25,), optimizer="adam", learning_rate=1e-3),
        Hyperparameters(hidden=(50,), optimizer="rmsprop", learning_rate=1e-4),
    ]
    assert member_labels(members) == ["25", "50"]


def test_each_hyperparameter_has_its_word() -> None:
    def of(*members: Hyperparameters) -> list[str]:
        return member_labels(members)

    plain = Hyperparameters()
    assert of(plain, plain.replace(learning_rate=1e-5)) == ["lr 3e-4", "lr 1e-5"]
    assert of(plain, plain.replace(loss="huber")) == ["l2", "huber"]
    assert of(plain, plain.replace(optimizer="sgd")) == ["adam", "sgd"]
    assert of(plain, plain.replace(discount=0.9)) == ["default discount", "discount 0.9"]
    assert of(plain, plain.replace(optimizer_options=(("eps", 1.5e-8),))) == ["default options", "eps=1.5e-8"]
    assert of(plain, plain.replace(hidden=())) == ["200x200", "linear"]
    categorical = plain.replace(head="categorical", value_range=(-100, 50))
    assert of(plain, categorical) == ["l2", "categorical"]
    assert of(categorical, categorical.replace(bins=101)) == [
        "categorical 51 bins -100:50",
        "categorical 101 bins -100:50",
    ]
    assert of(plain, plain.replace(value_range=(-100, 50))) == ["200x200 #1", "200x200 #2"]  # it makes no difference


def test_numbers_are_short() -> None:
    numbers = {
        1e-3: "1e-3",
        1.5e-4: "1.5e-4",
        0.0123456: "0.01235",
        1.0: "1",
        0.0: "0",
        0.00123456: "1.235e-3",
    }
    assert {value: number_label(value) for value in numbers} == numbers


def test_convolutions_are_named_by_channels_and_by_kernels_only_where_these_differ() -> None:
    one = Hyperparameters(convolutions=(Convolution(32, 8, 4), Convolution(64, 4, 2)))
    wider = Hyperparameters(convolutions=(Convolution(44, 8, 4), Convolution(64, 4, 2)))
    coarser = Hyperparameters(convolutions=(Convolution(32, 9, 4), Convolution(64, 4, 2)))
    assert member_labels([one, wider]) == ["32-64", "44-64"]
    assert member_labels([one, coarser]) == ["k8s4-k4s2", "k9s4-k4s2"]


def test_equal_members_are_numbered_and_others_are_not() -> None:
    small, large = grid(hidden=[(25, 25), (200, 200)])
    assert member_labels([small, large, small]) == ["25x25 #1", "200x200", "25x25 #2"]
    assert member_labels([large, large]) == ["200x200 #1", "200x200 #2"]
    assert member_labels([large]) == ["200x200"]
    assert member_labels([]) == []


@given(
    st.lists(
        st.builds(
            Hyperparameters,
            hidden=st.sampled_from([(25,), (25, 25), (50,)]),
            activation=st.sampled_from(["relu", "tanh"]),
            learning_rate=st.sampled_from([1e-3, 1e-4]),
            discount=st.sampled_from([None, 0.9]),
        ),
        max_size=8,
    )
)
def test_labels_tell_all_members_apart(members: list[Hyperparameters]) -> None:
    labels = member_labels(members)
    assert len(set(labels)) == len(members)
    numbered = [m for m, label in zip(members, labels, strict=True) if "#" in label]
    assert numbered == [m for m in members if members.count(m) > 1]
