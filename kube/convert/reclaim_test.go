package convert

import (
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/kube/names"
)

// The order of an owner is read as she may write it, and as Norn does.
func TestParseReclaim(t *testing.T) {
	six := time.Date(2026, 3, 4, 18, 0, 0, 0, time.UTC)
	for text, want := range map[string]Reclaim{
		"gracefully":                      {},
		" gracefully  peak of inference ": {Why: "peak of inference"},
		"now":                             {By: time.Unix(0, 0)},
		"2026-03-04T18:00:00Z":            {By: six},
		"2026-03-04T19:00:00+01:00 night": {By: six, Why: "night"},
	} {
		r, err := ParseReclaim(map[string]string{names.Reclaimed: text})
		if err != nil || !r.By.Equal(want.By) || r.Why != want.Why {
			t.Errorf("%q: %+v, %v", text, r, err)
			continue
		}
		if again, err := ParseReclaim(map[string]string{names.Reclaimed: r.String()}); err != nil || !again.By.Equal(r.By) || again.Why != r.Why {
			t.Errorf("%q is written as %q, which is %+v, %v", text, r, again, err)
		}
	}
	if r, err := ParseReclaim(map[string]string{"other": "now"}); r != nil || err != nil {
		t.Errorf("%+v, %v", r, err)
	}
	for _, text := range []string{"", "soon", "18:00 night", "2026-03-04"} {
		if r, err := ParseReclaim(map[string]string{names.Reclaimed: text}); err == nil || !strings.Contains(err.Error(), "none of now") {
			t.Errorf("%q: %+v, %v", text, r, err)
		}
	}
}
