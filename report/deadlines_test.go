package report

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/job"
)

// TestDeadlines counts jobs of all classes and fates.
func TestDeadlines(t *testing.T) {
	const s = time.Second
	of := func(key string, phase job.Phase, end, deadline time.Duration, isSoft bool, why job.ReasonCode) *job.Record {
		return &job.Record{Job: &job.Job{Key: key, Deadline: deadline, Soft: isSoft}, Phase: phase, End: end, Reason: job.Reason{Code: why}}
	}
	var p promised
	for _, r := range []*job.Record{
		of("met", job.Done, 10*s, 10*s, false, 0), of("late", job.Done, 25*s, 20*s, false, 0), of("soft", job.Done, 40*s, 25*s, true, 0),
		of("failed", job.FailedPhase, 5*s, 20*s, false, 0), of("refused", job.Waiting, -1, 20*s, false, job.Refused),
		of("open", job.Running, -1, 20*s, true, 0), of("free", job.Done, 30*s, 0, false, 0), of("waits", job.Waiting, -1, 0, false, job.Outranked),
	} {
		p.job(r)
	}
	got := p.result()
	if got.Jobs != 6 || got.Met != 1 || got.Share() != 1./6 || got.Lateness.N != 2 || got.Lateness.Mean != 10*s || !slices.Equal(got.Refused, []string{"refused"}) {
		t.Errorf("%+v", got)
	}
	text, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`{"class":"strict","jobs":4,"met":1,"late":1,"failed":1,"refused":1,"open":0,"jct_mean_s":17.5}`,
		`{"class":"soft","jobs":2,"met":0,"late":1,"failed":0,"refused":0,"open":1,"jct_mean_s":40}`,
		`{"class":"best-effort","jobs":2,"met":1,"late":0,"failed":0,"refused":0,"open":1,"jct_mean_s":30}`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
}

// TestDeadlinesColumn is in the table where some run has a deadline, and in no other.
func TestDeadlinesColumn(t *testing.T) {
	with, without := result(3000, 600, 0), result(1500, 900, 3)
	with.Promises = Promises{Jobs: 8, Met: 6}
	for _, c := range []struct {
		runs []Named
		want bool
	}{{[]Named{{"a", without}}, false}, {[]Named{{"a", with}, {"b", without}}, true}} {
		var text, md bytes.Buffer
		if err := Compare(c.runs).WriteText(&text, TextOptions{Width: 300}); err != nil {
			t.Fatal(err)
		}
		if err := Compare(c.runs).WriteMarkdown(&md); err != nil {
			t.Fatal(err)
		}
		for _, out := range []string{text.String(), md.String()} {
			if strings.Contains(out, "deadlines") != c.want || strings.Contains(out, "75.0%") != c.want {
				t.Errorf("%s", out)
			}
		}
	}
}
