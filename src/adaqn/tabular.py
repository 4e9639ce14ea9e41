"""AdaQN on finite MDPs, where every quantity of the theory can be computed exactly.

`adaptive_q_learning` is the tabular algorithm of the convergence appendix: K tables with their own step sizes learn
from one shared target. `adaptive_value_iteration` is the approximate case of Section 4: K linear critics follow a
Bellman target with a few gradient steps each, and the errors that Farahmand's theorem adds up are known exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from adaqn.base.errors import UserError

Array = np.ndarray
StepSize = Callable[[int], float]  # number of the update, starting at 1 -> α
Rule = Literal["lowest", "random", "highest"]


class FiniteMDP(NamedTuple):
    """A finite MDP with S states and A actions; a terminal state leads to itself with reward 0."""

    transition: Array  # [S, A, S] probability of each next state
    reward: Array  # [S, A] expected reward
    gamma: float

    def bellman(self, q: Array) -> Array:
        """Γ*Q, the optimal Bellman operator applied to one or several tables. [..., S, A] -> [..., S, A]"""
        return self.reward + self.gamma * np.einsum("saz,...z->...sa", self.transition, q.max(axis=-1))


class Member(NamedTuple):
    """A linear critic Q = Φ w. With the identity as features it is a table."""

    features: Array  # [S * A, D] Φ
    learning_rate: float


class Learned(NamedTuple):
    """The K tables after learning, and the target member after each update."""

    q: Array  # [K, S, A]
    target_member: Array  # [T] ψ(t)


class Iterations(NamedTuple):
    """N Bellman iterations with a shared target."""

    target: Array  # [N + 1, S, A] Q of the target, starting with the initial one
    target_member: Array  # [N] the member that became target
    error: Array  # [N] ||Γ*Q_{i-1} - Q_i||²_{2,ν}, exact, with ν uniform
    performance_loss: Array  # [N] ||Q* - Q^{π_i}||_{1,ρ}, π_i greedy in Q_i and ρ uniform


def random_mdp(states: int, actions: int, gamma: float, rng: np.random.Generator, branching: int = 3) -> FiniteMDP:
    """A Garnet MDP: each pair leads to `branching` random states with random probabilities; rewards are N(0, 1)."""
    transition = np.zeros((states, actions, states))
    for state in range(states):
        for action in range(actions):
            successors = rng.choice(states, size=min(branching, states), replace=False)
            transition[state, action, successors] = rng.dirichlet(np.ones(len(successors)))
    return FiniteMDP(transition, rng.normal(size=(states, actions)), gamma)


def from_toy_text(table: Mapping[int, Mapping[int, Sequence[tuple[Any, ...]]]], gamma: float) -> FiniteMDP:
    """The MDP of Gymnasium's `env.unwrapped.P`, which FrozenLake, Taxi and CliffWalking have.

    A transition with `terminated` leads to an additional absorbing state, the last one, because the same next state
    may also be reached without termination.
    """
    states, actions = len(table), len(table[0])
    transition, reward = np.zeros((states + 1, actions, states + 1)), np.zeros((states + 1, actions))
    transition[states, :, states] = 1.0
    for state, by_action in table.items():
        for action, outcomes in by_action.items():
            for probability, successor, amount, terminated in outcomes:
                transition[state, action, states if terminated else int(successor)] += probability
                reward[state, action] += probability * amount
    return FiniteMDP(transition, reward, gamma)


def optimal_q(mdp: FiniteMDP, tolerance: float = 1e-12) -> Array:
    """Q* by value iteration, to within `tolerance` in the maximum norm. [S, A]"""
    q = np.zeros_like(mdp.reward)
    while True:
        after = mdp.bellman(q)
        # A γ-contraction: the distance to the fixed point is at most γ / (1 - γ) times the last change.
        if np.abs(after - q).max() * mdp.gamma <= tolerance * (1 - mdp.gamma):
            return after
        q = after


def policy_q(mdp: FiniteMDP, policy: Array) -> Array:
    """Q^π of a deterministic policy [S], by solving Bellman's linear equations. [S, A]"""
    states = np.arange(len(policy))
    follow = mdp.transition[states, policy]  # [S, S]
    value = np.linalg.solve(np.eye(len(policy)) - mdp.gamma * follow, mdp.reward[states, policy])
    return mdp.reward + mdp.gamma * mdp.transition @ value


def performance_loss(mdp: FiniteMDP, q: Array, best: Array) -> float:
    """||Q* - Q^π||_{1,ρ} of the policy that is greedy in `q`, with ρ uniform and `best` = Q*."""
    return float(np.abs(best - policy_q(mdp, q.argmax(axis=-1))).mean())


def polynomial(power: float, scale: float = 1.0, delay: float = 0.0) -> StepSize:
    """α(n) = scale / (n + delay)^power.

    The sum of α diverges and the sum of α² converges, as the convergence theorem requires, exactly if 1/2 < power <= 1.
    """
    return lambda n: scale / (n + delay) ** power


def adaptive_q_learning(
    mdp: FiniteMDP,
    step_sizes: Sequence[StepSize],
    updates: int,
    rng: np.random.Generator,
    *,
    rule: Rule | int = "lowest",
    initial_q: Array | None = None,
) -> Learned:
    """Tabular AdaQN: Q^k ← Q^k + α_k(t) [r + γ max_a' Q^ψ(s', a') - Q^k], for all pairs and all K members.

    Every update draws one next state for each pair, the same for all members. Then, as in the appendix,
    ψ(t) = argmin_k ||Γ*Q^ψ(t-1) - Q^k||₂ with the true operator; the theorem allows any ψ(t) that depends on the past.
    With an integer as `rule`, this member is always the target, which is plain Q-learning for it.
    """
    states, actions = mdp.reward.shape
    q = np.zeros((len(step_sizes), states, actions)) if initial_q is None else np.array(initial_q, dtype=float)
    if q.shape != (len(step_sizes), states, actions):
        raise UserError(f"initial_q must have shape {(len(step_sizes), states, actions)} [K, S, A], but got {q.shape}")
    choose = _chooser(rule, len(step_sizes), rng)
    cumulative = mdp.transition.cumsum(axis=-1)
    cumulative[..., -1] = 1.0  # a sum of rounded probabilities may fall short of 1
    psi, chosen = choose(np.zeros(len(step_sizes))) if isinstance(rule, int) else 0, np.empty(updates, int)
    for t in range(updates):
        successor = (rng.random((states, actions, 1)) > cumulative).sum(axis=-1)  # [S, A]
        target = mdp.reward + mdp.gamma * q[psi].max(axis=-1)[successor]
        sizes = np.array([size(t + 1) for size in step_sizes])[:, None, None]
        expected = mdp.bellman(q[psi])
        q = q + sizes * (target - q)
        psi = choose(np.square(expected - q).sum(axis=(1, 2)))
        chosen[t] = psi
    return Learned(q, chosen)


def adaptive_value_iteration(
    mdp: FiniteMDP,
    members: Sequence[Member],
    iterations: int,
    gradient_steps: int,
    rng: np.random.Generator,
    *,
    rule: Rule | int = "lowest",
) -> Iterations:
    """Approximate value iteration with K linear members, one of which becomes the shared target after each iteration.

    Each member makes `gradient_steps` steps of gradient descent on the mean over all pairs of ½ (Γ*Q_target - Φw)²,
    so nothing is sampled, and the selection compares exactly what Equation 3 of the paper compares.
    """
    best, choose = optimal_q(mdp), _chooser(rule, len(members), rng)
    weights = [np.zeros(member.features.shape[1]) for member in members]
    targets, chosen = [np.zeros_like(mdp.reward)], np.empty(iterations, int)
    error, loss = np.empty(iterations), np.empty(iterations)
    for i in range(iterations):
        aim = mdp.bellman(targets[-1])
        weights = [_descend(member, w, aim.ravel(), gradient_steps) for member, w in zip(members, weights, strict=True)]
        values = [(member.features @ w).reshape(aim.shape) for member, w in zip(members, weights, strict=True)]
        errors = np.array([np.square(aim - q).mean() for q in values])
        chosen[i] = choose(errors)
        targets.append(values[chosen[i]])
        error[i], loss[i] = errors[chosen[i]], performance_loss(mdp, targets[-1], best)
    return Iterations(np.array(targets), chosen, error, loss)


def _descend(member: Member, weights: Array, aim: Array, steps: int) -> Array:
    for _ in range(steps):
        gradient = member.features.T @ (member.features @ weights - aim) / len(aim)
        weights = weights - member.learning_rate * gradient
    return weights


def _chooser(rule: Rule | int, members: int, rng: np.random.Generator) -> Callable[[Array], int]:
    """A function from the K errors to the next target member."""
    if isinstance(rule, int):
        if not 0 <= rule < members:
            raise UserError(f"rule must be the number of a member, 0 to {members - 1}, but got {rule}")
        return lambda errors: rule
    if rule not in get_args(Rule):
        raise UserError(f"unknown rule {rule!r}; choose one of {', '.join(get_args(Rule))}, or the number of a member")
    if rule == "random":
        return lambda errors: int(rng.integers(members))
    return lambda errors: int(errors.argmin() if rule == "lowest" else errors.argmax())
