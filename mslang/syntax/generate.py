"""Makes `tables.json` from the grammar: `python -m mslang.syntax.generate`. Nothing else in the product uses Lark."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from mslang.resources import grammar_text
from mslang.syntax.tables import END, TABLES_FILE, LexerTable, Rule, Tables

STARTS = ("item", "expr")


def make_tables(grammar: str) -> Tables:
    """The tables of a grammar."""
    from lark import Lark

    lark: Any = Lark(grammar, parser="lalr", lexer="basic", start=list(STARTS), maybe_placeholders=True)
    table = lark.parser.parser._parse_table
    productions = sorted(lark.rules, key=lambda rule: (rule.origin.name, [s.name for s in rule.expansion]))
    rules = tuple(_rule(rule) for rule in productions)
    reduction = {rule: -1 - n for n, rule in enumerate(productions)}
    order = _state_order(table)
    number = {state: n for n, state in enumerate(order)}
    actions: list[dict[str, int]] = []
    gotos: list[dict[str, int]] = []
    nonterminals = {rule.origin for rule in rules}
    for state in order:
        action_row: dict[str, int] = {}
        goto_row: dict[str, int] = {}
        for symbol, (action, argument) in sorted(table.states[state].items()):
            if action.name == "Reduce":
                action_row[symbol] = reduction[argument]
            elif symbol in nonterminals:
                goto_row[symbol] = number[argument]
            elif symbol != END:
                action_row[symbol] = number[argument] + 1
        actions.append(action_row)
        gotos.append(goto_row)
    starts = {name: (number[table.start_states[name]], number[table.end_states[name]]) for name in STARTS}
    return Tables(_lexer(lark), rules, tuple(actions), tuple(gotos), starts)


def _state_order(table: Any) -> list[int]:
    """The states in order of discovery, so that equal grammars have equal tables."""
    order = [table.start_states[name] for name in STARTS]
    met = set(order)
    for state in order:
        for symbol, (action, target) in sorted(table.states[state].items()):
            if symbol != END and action.name == "Shift" and target not in met:
                met.add(target)
                order.append(target)
    return order


def _rule(rule: Any) -> Rule:
    """Lark's construction of children, as data: filtered tokens, spliced helper rules, placeholders."""
    assert rule.expansion, f"{rule.origin} may be empty, so it would have no span"
    empty = rule.options.empty_indices
    before = [len(run) for run in "".join(str(int(b)) for b in empty).split("0")] if empty else []
    before = before or [0] * (len(rule.expansion) + 1)
    template: list[int | None] = []
    for k, symbol in enumerate(rule.expansion):
        template += [None] * before[k]
        if symbol.is_term and symbol.filter_out and not rule.options.keep_all_tokens:
            continue
        spliced = not symbol.is_term and symbol.name.startswith("_")
        template.append(-1 - k if spliced else k)
    template += [None] * before[-1]
    origin = str(rule.origin.name)
    action = rule.alias or origin
    if origin.startswith("_"):
        action = ""
    elif rule.options.expand1 and rule.alias is None:
        assert len(template) == 1 and template[0] is not None and template[0] >= 0, f"{origin} must pass one child on"
        action = "pass"
    return Rule(origin, len(rule.expansion), action, tuple(template))


def _lexer(lark: Any) -> LexerTable:
    """The terminals in Lark's own order, with keywords separated from names."""
    terminals = sorted(lark.terminals, key=lambda t: (-t.priority, -t.pattern.max_width, -len(t.pattern.value), t.name))
    name = next(t for t in terminals if t.name == "NAME")
    literals = {t.name: t.pattern.value for t in terminals if t.pattern.type == "str"}
    keywords = {text: kind for kind, text in literals.items() if re.fullmatch(name.pattern.to_regexp(), text)}
    groups = [f"(?P<{t.name}>{t.pattern.to_regexp()})" for t in terminals if literals.get(t.name, "") not in keywords]
    return LexerTable("|".join(groups), keywords, frozenset(lark.ignore_tokens), literals)


def encode(tables: Tables) -> bytes:
    """The contents of the tables' file; the same grammar gives the same bytes."""
    return msgspec.json.encode(tables, order="deterministic") + b"\n"


def main() -> None:
    """Write the file."""
    TABLES_FILE.write_bytes(encode(make_tables(grammar_text())))


if __name__ == "__main__":
    main()
