package job_test

import (
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/job"
)

func TestBursts(t *testing.T) {
	b, err := job.ParseBursts("50ms-100ms@5+120ms-1.5s@0.25")
	if err != nil || b.Len() != 2 || b.Peak() != 5 || b[1] != (job.Burst{From: 120 * time.Millisecond, To: 1500 * time.Millisecond, GBps: 0.25}) {
		t.Fatalf("%v, %v", b, err)
	}
	if b.String() != "50ms-100ms@5+120ms-1.5s@0.25" {
		t.Errorf("written as %s", b.String())
	}
	if err := b.Check(1500 * time.Millisecond); err != nil {
		t.Error(err)
	}
	for text, want := range map[string]string{
		"5": `burst "5": write it as 50ms-100ms@5`, "1ms-2ms@0": "write it as", "2ms-1ms@1": "each must end after it begins", "1ms-3ms@1+2ms-4ms@1": "begin after the one before",
		"1ms-2ms@Inf": "write it as", "1ms-2ms@NaN": "write it as", "-1ms-2ms@1": "write it as", "1ms-2ms@1+3ms-4ms@1+5ms-6ms@1+7ms-8ms@1+9ms-10ms@1+11ms-12ms@1+13ms-14ms@1": "7 bursts: 6 at most",
	} {
		if _, err := job.ParseBursts(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	if err := b.Check(time.Second); err == nil || !strings.Contains(err.Error(), "in iterations of 1s") {
		t.Errorf("%v", err)
	}
	if err := b.Check(0); err == nil || !strings.Contains(err.Error(), "without the time of an iteration") {
		t.Errorf("%v", err)
	}
	if none, err := job.ParseBursts(""); err != nil || none.Len() != 0 || none.String() != "" || none.Check(0) != nil {
		t.Errorf("none: %v, %v", none, err)
	}
}
