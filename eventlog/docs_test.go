package eventlog_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
)

// TestFormatsPage holds docs/formats.md against the encoding: it describes every
// kind of event and every reason, the version, and its example can be read.
func TestFormatsPage(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "docs", "formats.md"))
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	for kind := eventlog.Submit; kind <= eventlog.Past; kind++ {
		if !strings.Contains(page, "| `"+kind.String()+"` |") {
			t.Errorf("no kind %s", kind)
		}
	}
	for code := job.NeedGPUs; code <= job.Profiled; code++ {
		if name := code.String(); !strings.Contains(page, "`"+name+"`") {
			t.Errorf("no reason %s", name)
		}
	}
	if eventlog.Version != 2 || !strings.Contains(page, "names the version, which is 2") {
		t.Error("the page does not tell the version")
	}
	_, example, found := strings.Cut(page, "### An example\n")
	example, _, ended := strings.Cut(example, "\n### ")
	if !found || !ended {
		t.Fatal("no example")
	}
	var log strings.Builder
	for _, line := range strings.Split(example, "\n") {
		if rest, is := strings.CutPrefix(line, "    "); is {
			log.WriteString(rest + "\n")
		}
	}
	if _, events, _, err := read([]byte(log.String())); err != nil || len(events) != 12 {
		t.Errorf("%d events, %v:\n%s", len(events), err, log.String())
	}
}
