package trace_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/trace"
)

var update = flag.Bool("update", false, "write the table of columns of docs/traces.md")

// columnTable is the table of columns of docs/traces.md, made from their
// declarations.
func columnTable() string {
	var w strings.Builder
	w.WriteString("| format | something in each row | may be empty, and what that means | the header may lack |\n|---|---|---|---|\n")
	for _, f := range trace.Formats() {
		if f.Columns == nil {
			continue
		}
		var required, empty, optional []string
		for _, c := range f.Columns {
			name := "`" + c.Name + "`"
			if c.Name == "" {
				name = "the column without a name"
			}
			if c.Set == nil {
				continue
			}
			if c.Empty == "" {
				required = append(required, name)
			} else {
				empty = append(empty, name+": "+c.Empty)
			}
			if c.Optional {
				optional = append(optional, name)
			}
		}
		fmt.Fprintf(&w, "| `%s` | %s | %s | %s |\n", f.Name, strings.Join(required, ", "), strings.Join(empty, "; "), strings.Join(optional, ", "))
	}
	return w.String()
}

// TestColumnTable holds docs/traces.md against the declarations of the formats.
func TestColumnTable(t *testing.T) {
	const path, begin, end = "../docs/traces.md", "<!-- columns: written by the test -->\n\n", "\n<!-- end of columns -->"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	have, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no table of columns", path)
	}
	want := columnTable()
	if have == want {
		return
	}
	if !*update {
		t.Fatalf("%s: the table of columns is out of date; run go test ./trace -run TestColumnTable -update", path)
	}
	if err := os.WriteFile(path, []byte(before+begin+want+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}
