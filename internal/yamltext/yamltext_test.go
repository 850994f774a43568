package yamltext

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster/unit"
)

// TestMapping: keys reach their setters, and what is wrong is told with its place
// and with the key that may be meant.
func TestMapping(t *testing.T) {
	read := func(text string) (n int, name string, err error) {
		body, err := Parse([]byte(text))
		if err == nil {
			err = Mapping(body, "a thing", Keys{"count": Int(&n, 1, 9), "name": Text(&name)})
		}
		if err != nil {
			err = Locate("f.yaml", []byte(text), err)
		}
		return n, name, err
	}
	if n, name, err := read("# x\ncount: 3\nname: \"a b\"\n"); n != 3 || name != "a b" || err != nil {
		t.Errorf("%d %q %v", n, name, err)
	}
	for text, want := range map[string]string{
		"name: a\ncuont: 3":       "f.yaml:2:1: a thing has no key \"cuont\"; known are: count, name; did you mean count?\n    cuont: 3",
		"count: 10":               "f.yaml:1:8: \"10\": write a whole number from 1 to 9\n    count: 10",
		"count:":                  "f.yaml:1:8: the value is missing\n    count:",
		"count: [1]":              "f.yaml:1:8: a single value is wanted here\n    count: [1]",
		"[count]":                 "f.yaml:1:1: a thing is written as keys and values\n    [count]",
		"name: a\n---\nname: b\n": "f.yaml:3:5: a second document; one is wanted\n    name: b",
	} {
		if _, _, err := read(text); err == nil || err.Error() != want {
			t.Errorf("%q\n have %v\n want %s", text, err, want)
		}
	}
}

// TestDocuments: those in which something stands, in order, and none is lost.
func TestDocuments(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "# nothing\n": 0, "---\n": 0, "a: 1": 1, "# c\n---\na: 1\n": 1, "a: 1\n---\nb: 2\n---\n# end\n": 2, "a: 1\n...\n---\nb: 2\n": 2, "a: |\n  ---\nb: '---'\n": 1,
	} {
		if docs, err := Documents([]byte(text)); err != nil || len(docs) != want {
			t.Errorf("%q: %d documents, %v", text, len(docs), err)
		}
	}
	for text, want := range map[string]string{"a: 1\n---\n---\nb: 2\n": "f:3:1: nothing stands between", "a: 1\n---\n# c\n---\nb: 2\n---\nc: 3": "f:4:1: nothing stands between"} {
		_, err := Documents([]byte(text))
		if err = Locate("f", []byte(text), err); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestQuote: whatever can be printed is read as it was written.
func TestQuote(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.OneOf(rapid.StringMatching(`[ -~]{0,20}`), rapid.SampledFrom([]string{"", "no", "007", "1e3", "ä b", "- x", "a: b", "# c", "~", "null"})).Draw(t, "text")
		text := "v: " + Quote(want) + "\n"
		var got string
		body, err := Parse([]byte(text))
		if err == nil {
			err = Mapping(body, "it", Keys{"v": Text(&got)})
		}
		if err != nil || got != want {
			t.Fatalf("%q is written %s and read as %q (%v)", want, strings.TrimSpace(text), got, err)
		}
	})
}

// TestFormatBytes: an amount is read as it was.
func TestFormatBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := unit.Bytes(rapid.Int64Range(0, 1<<52).Draw(t, "bytes") &^ (1<<rapid.IntRange(0, 45).Draw(t, "zeros") - 1))
		if got, err := unit.ParseBytes(FormatBytes(want)); err != nil || got != want {
			t.Fatalf("%d is written %s and read as %d (%v)", want, FormatBytes(want), got, err)
		}
	})
}
