"""Which exchanges are one conversation: told from small links, by hand."""

from itertools import permutations

from wiretape.viewer.listing.conversations import ConversationLink, Conversations, TreeParent, tree


def turn(no: int, messages: str, continues: str | None = None, **more: object) -> ConversationLink:
    return ConversationLink(no, f"id{no}", messages=messages, continues=continues, **more)  # type: ignore[arg-type]


def drawing(conversations: Conversations, *numbers: int) -> str:
    parents = {no: TreeParent(conversations.above(no), conversations.continued(no) is not None) for no in numbers}
    return " ".join(f"{'.' * depth}{no}" for no, depth in tree(parents))


def test_turns_in_line_stay_flat_below_their_first() -> None:
    conversations = Conversations([turn(1, "a"), turn(2, "ab", "a"), turn(4, "abc", "ab")])
    assert [conversations.name(no) for no in (1, 2, 4)] == ["id1"] * 3
    assert [conversations.continued(no) for no in (1, 2, 4)] == [None, 1, 2]
    assert drawing(conversations, 1, 2, 4) == "1 2 4"


def test_equal_starts_continue_with_their_own_answers() -> None:
    starts = [turn(no, "a", answer=f"x{no}") for no in range(1, 11)]
    conversations = Conversations(
        [*starts, *(turn(10 + no, f"a{no}", "a", continued_answer=f"x{no}") for no in range(1, 11))]
    )
    assert [conversations.continued(10 + no) for no in range(1, 11)] == [*range(1, 11)]
    assert len({conversations.name(no) for no in range(1, 21)}) == 10


def test_like_conversations_are_each_continued_before_one_branches() -> None:
    equal = [turn(no, "a", answer="x") for no in (1, 2)]
    conversations = Conversations([*equal, *(turn(no, "ab", "a", continued_answer="x") for no in (3, 4, 5))])
    assert [conversations.continued(no) for no in (3, 4, 5)] == [2, 1, 2]


def test_a_changed_answer_continues_its_clients_newest() -> None:
    links = [turn(1, "a", key="k", answer="x"), turn(2, "a", answer="x"), turn(3, "ab", "a", continued_answer="y")]
    assert Conversations(links).continued(3) == 2
    assert Conversations([links[0], links[2]]).continued(3) is None


def test_the_longest_line_stays_and_branches_are_deeper() -> None:
    conversations = Conversations(
        [turn(1, "a"), turn(2, "ab", "a"), turn(3, "ac", "a"), turn(4, "abd", "ab"), turn(5, "z")]
    )
    assert drawing(conversations, 1, 2, 3, 4) == "1 .3 2 4"
    assert drawing(conversations, 1, 4) == "1 4", "what continues an exchange that is left out begins anew"


def test_a_key_names_its_exchanges_and_their_continuations() -> None:
    conversations = Conversations(
        [turn(1, "a", key="k"), turn(2, "b", key="k"), turn(3, "ab", "a", key="k"), ConversationLink(4, "id4", False)]
    )
    assert [conversations.name(no) for no in (1, 2, 3, 4)] == ["k", "k", "k", None]
    assert drawing(conversations, 1, 2, 3) == "1 3 2"


def test_a_repeated_request_continues_the_failed_one() -> None:
    tries = [turn(1, "a", failed=True), turn(2, "a", failed=True), turn(3, "a", retries=1), turn(4, "a", retries=0)]
    conversations = Conversations([*tries, turn(5, "ab", "a", retries=2)])
    assert [conversations.continued(no) for no in (2, 3, 4, 5)] == [None, 2, None, 4]
    conversations.put(turn(6, "a", retries=1))
    assert conversations.continued(6) == 1


def test_a_named_response_is_continued_whatever_the_messages() -> None:
    conversations = Conversations(
        [turn(1, "a", response_id="r1"), turn(2, "a"), turn(3, "b", "a", previous_response_id="r1")]
    )
    assert conversations.continued(3) == 1
    lost = Conversations([turn(3, "b", previous_response_id="r0")])
    assert (lost.continued(3), lost.name(3)) == (None, "id3")


def test_sub_agents_hang_on_their_starters_newest_exchange() -> None:
    own_key = Conversations([
        turn(1, "a", key="k"), turn(2, "s", key="sub", parent_key="k"), turn(3, "st", "s", key="sub", parent_key="k"),
        turn(4, "ab", "a", key="k"),
    ])  # fmt: skip
    assert {own_key.name(no) for no in (1, 2, 3, 4)} == {"k"}
    assert drawing(own_key, 1, 2, 3, 4) == "1 .2 .3 4"
    learned = Conversations([turn(1, "s", key="sub"), turn(2, "st", "s", key="sub", parent_key="k")])
    assert {learned.name(1), learned.name(2)} == {"k"}
    same_key = Conversations([
        turn(1, "a", key="k"), turn(2, "s", key="k", parent_key="k"), turn(3, "t", key="k", parent_key="k"),
        turn(4, "ab", "a", key="k"),
    ])  # fmt: skip
    assert drawing(same_key, 1, 2, 3, 4) == "1 .2 .3 4"


def test_a_key_and_its_hash_are_one_conversation() -> None:
    links = [
        turn(1, "a", key="#k"),
        turn(2, "b", key="k"),
        turn(3, "c", key="s", parent_key="k"),
        turn(4, "d", key="l"),
    ]
    for order in permutations(links):
        conversations = Conversations(order, mark_of_key=lambda key: f"#{key.removeprefix('#')}")
        assert [conversations.name(no) for no in (1, 2, 3, 4)] == ["#k", "#k", "#k", "l"]


def test_conversations_that_name_each_other_as_their_parents_end() -> None:
    conversations = Conversations([turn(1, "a", key="k", parent_key="l"), turn(2, "b", key="l", parent_key="k")])
    assert {conversations.name(1), conversations.name(2)} <= {"k", "l"}


def test_the_order_of_arrival_does_not_matter() -> None:
    links = [turn(1, "a"), turn(2, "a"), turn(3, "ab", "a"), turn(4, "abc", "ab", key="k", parent_key="l")]
    expected = [Conversations(links).name(no) for no in range(1, 5)]
    for order in permutations(links):
        conversations = Conversations()
        for link in order:
            conversations.put(ConversationLink(link.no, link.id))
            conversations.name(link.no)
            conversations.put(link)
            conversations.name(link.no)
        assert [conversations.name(no) for no in range(1, 5)] == expected
