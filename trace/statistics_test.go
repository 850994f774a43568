package trace_test

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/trace"
)

// only is the part of a source for which keep says so.
type only struct {
	src  trace.Source
	keep func(e *trace.Entry) bool
}

func (o *only) Next(e *trace.Entry) error {
	for {
		if err := o.src.Next(e); err != nil || o.keep(e) {
			return err
		}
	}
}

// chain is one source after the other, in no order of submission.
type chain struct{ sources []trace.Source }

func (c *chain) Next(e *trace.Entry) error {
	for len(c.sources) > 0 {
		err := c.sources[0].Next(e)
		if err != io.EOF {
			return err
		}
		c.sources = c.sources[1:]
	}
	return io.EOF
}

func commas(v float64) string {
	s := strconv.FormatFloat(v, 'f', 0, 64)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// row writes a summary as the table of statistics of the published data does:
// jobs, the eight most frequent sizes, quantiles, mean and GPU hours.
func row(s *trace.Summary) string {
	sizes := slices.Clone(s.Sizes)
	slices.SortStableFunc(sizes, func(a, b trace.Share) int { return cmp.Compare(b.Jobs, a.Jobs) })
	sizes = sizes[:min(8, len(sizes))]
	slices.SortFunc(sizes, func(a, b trace.Share) int { return cmp.Compare(gpus(a), gpus(b)) })
	var parts []string
	for _, z := range sizes {
		parts = append(parts, fmt.Sprintf("%s:%.1f%%", z.Name, 100*z.OfJobs))
	}
	d := &s.Duration
	var q []string
	for _, v := range []float64{d.P10, d.P25, d.P50, d.P75, d.P90, d.P95, d.P99} {
		q = append(q, commas(v))
	}
	return fmt.Sprintf("%s | %s (max %s) | %s | %s | %s", commas(float64(s.Jobs)), strings.Join(parts, " "),
		strconv.FormatFloat(s.MaxGPUs, 'f', -1, 64), strings.Join(q, " / "), commas(d.Mean), commas(s.GPUHours))
}

func gpus(z trace.Share) float64 { v, _ := strconv.ParseFloat(z.Name, 64); return v }

// TestPublishedStatistics recomputes the table "Statistics of the job logs" of
// the published data's README, in its rounding.
func TestPublishedStatistics(t *testing.T) {
	passed := func(e *trace.Entry) bool { return e.Truth.Outcome == trace.Passed }
	failed := func(e *trace.Entry) bool { return e.Truth.Outcome != trace.Passed }
	all := func(*trace.Entry) bool { return true }
	for _, test := range []struct {
		name, file string
		keep       func(e *trace.Entry) bool
		want       string
	}{
		{"Philly", "philly/philly_jobs_reconstructed.csv.gz", all, "111,813 | 1:86.6% 2:2.3% 4:4.9% 8:5.1% 16:0.8% 24:0.0% 32:0.2% 64:0.0% (max 128) | 55 / 112 / 1,220 / 4,201 / 31,298 / 111,960 / 670,004 | 32,297 | 3,238,794"},
		{"Philly passed", "philly/philly_jobs_reconstructed.csv.gz", passed, "82,245 | 1:93.2% 2:2.2% 4:2.3% 8:2.0% 12:0.0% 16:0.2% 24:0.0% 32:0.1% (max 128) | 61 / 115 / 1,144 / 2,932 / 11,264 / 43,647 / 255,060 | 13,145 | 978,623"},
		{"Philly not passed", "philly/philly_jobs_reconstructed.csv.gz", failed, "29,568 | 1:68.3% 2:2.4% 4:12.3% 8:13.9% 16:2.2% 24:0.1% 32:0.5% 64:0.1% (max 128) | 30 / 106 / 2,002 / 18,218 / 166,545 / 415,033 / 1,713,187 | 85,568 | 2,260,172"},
		{"Helios Venus", "helios/venus_gpu_jobs.csv.gz", all, "125,303 | 1:51.8% 2:5.5% 4:7.3% 8:24.7% 16:4.2% 24:0.9% 32:2.7% 128:0.4% (max 200) | 18 / 72 / 204 / 1,285 / 18,201 / 58,054 / 172,800 | 9,464 | 2,544,037"},
		{"PAI", "alibaba_pai2020/pai_terminated_tasks_sample60k.csv.gz", all, "60,105 | 1:77.0% 2:3.1% 3:1.5% 4:1.4% 5:1.7% 10:4.0% 20:2.1% 50:1.4% (max 400) | 41 / 131 / 618 / 3,699 / 12,201 / 22,751 / 66,192 | 5,029 | 687,854"},
		{"openb", "alibaba_openb2023/openb_pod_list_default.csv.gz", all, "8,152 | 0:13.3% 0.23:1.7% 0.32:4.0% 0.46:1.6% 0.47:9.2% 0.65:3.1% 0.81:13.2% 1:48.0% (max 8) | 80 / 167 / 540 / 1,972 / 6,573 / 16,399 / 96,510 | 25,839 | 51,600"},
		{"ThetaGPU", "thetagpu/data_thetagpu.csv.gz", all, "22,606 | 1:83.4% 2:9.5% 3:0.1% 4:4.0% 5:0.4% 8:2.0% 14:0.1% 16:0.3% (max 21) | 24 / 198 / 749 / 3,604 / 28,803 / 43,202 / 43,204 | 6,262 | 60,851"},
		{"Kalos", "acme/converted_kalos_trace.csv", all, "319 | 1:9.1% 2:12.9% 8:6.0% 32:4.4% 64:6.9% 256:16.3% 512:22.9% 1024:11.9% (max 1024) | 24 / 42 / 310 / 2,174 / 36,979 / 94,767 / 221,412 | 15,422 | 456,843"},
	} {
		r, err := trace.Open(data(t, test.file), trace.Options{})
		if err != nil {
			t.Fatal(err)
		}
		s, err := trace.Summarize(&only{r, test.keep})
		r.Close()
		if err != nil {
			t.Fatal(err)
		}
		if got := row(&s); got != test.want {
			t.Errorf("%s:\n have %s\n want %s", test.name, got, test.want)
		}
	}
}

// TestITPStatistics is the same for the ten clusters of Microsoft ITP, in both
// of their variants.
func TestITPStatistics(t *testing.T) {
	want := []string{
		"1,595 | 1:95.9% 2:0.7% 4:0.4% 8:0.3% 16:0.4% 32:0.7% 64:1.6% (max 64) | 3,929 / 5,648 / 8,287 / 14,988 / 29,917 / 40,552 / 52,940 | 12,721 | 22,740",
		"5,778 | 1:85.4% 2:1.8% 4:5.2% 8:6.1% 16:0.6% 32:0.6% 64:0.2% (max 64) | 1,011 / 2,554 / 6,182 / 19,804 / 56,615 / 107,083 / 220,013 | 22,970 | 123,748",
		"3,011 | 1:33.7% 2:2.8% 8:59.0% 16:3.1% 32:0.8% 64:0.6% (max 64) | 1,557 / 3,172 / 9,856 / 24,403 / 55,108 / 75,058 / 183,639 | 22,148 | 165,443",
		"15,802 | 1:75.5% 2:0.8% 4:3.4% 8:17.6% 16:1.2% 32:1.6% 64:0.0% (max 64) | 1,349 / 6,142 / 7,949 / 14,912 / 29,001 / 68,726 / 257,688 | 19,982 | 705,683",
		"3,629 | 1:95.5% 2:1.4% 4:1.0% 8:2.1% (max 8) | 1,003 / 4,482 / 7,699 / 11,031 / 16,586 / 23,924 / 59,785 | 10,214 | 14,303",
		"2,396 | 1:44.8% 2:0.3% 4:6.2% 8:45.2% 16:2.5% 32:0.8% 64:0.3% (max 64) | 814 / 2,010 / 4,320 / 27,554 / 54,300 / 96,931 / 288,586 | 24,434 | 123,879",
		"12,699 | 1:77.6% 2:6.6% 4:8.4% 8:7.4% 16:0.0% (max 16) | 1,803 / 3,432 / 7,399 / 11,135 / 55,216 / 127,079 / 392,448 | 25,881 | 366,800",
		"13,047 | 1:96.3% 2:1.7% 4:2.0% 8:0.0% 32:0.1% (max 32) | 929 / 2,190 / 13,677 / 18,928 / 28,659 / 28,785 / 56,994 | 14,546 | 67,100",
		"11,134 | 1:100.0% (max 1) | 1,776 / 11,636 / 11,764 / 13,248 / 23,033 / 25,911 / 26,105 | 12,610 | 39,001",
		"260 | 1:74.2% 2:19.6% 4:5.4% 16:0.8% (max 16) | 863 / 1,512 / 17,761 / 59,800 / 68,254 / 76,309 / 129,550 | 32,726 | 4,023",
	}
	for _, folder := range []string{"raw", "elasticflow"} {
		var together chain
		for i, w := range want {
			path := data(t, fmt.Sprintf("microsoft_itp/%s/cluster%02d.csv.gz", folder, i+1))
			r, err := trace.Open(path, trace.Options{})
			if err != nil {
				t.Fatal(err)
			}
			s, err := trace.Summarize(r)
			r.Close()
			if err != nil {
				t.Fatal(err)
			}
			if got := row(&s); got != w {
				t.Errorf("%s %d:\n have %s\n want %s", folder, i+1, got, w)
			}
			if r, err = trace.Open(path, trace.Options{}); err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			together.sources = append(together.sources, r)
		}
		s, err := trace.Summarize(&together)
		if err != nil {
			t.Fatal(err)
		}
		w := "69,351 | 1:83.2% 2:2.1% 4:3.4% 8:10.1% 16:0.5% 32:0.5% 64:0.1% (max 64) | 1,342 / 3,814 / 10,537 / 16,319 / 28,787 / 57,514 / 210,110 | 18,722 | 1,632,720"
		if got := row(&s); got != w {
			t.Errorf("%s together:\n have %s\n want %s", folder, got, w)
		}
	}
}

const small = `job,submit,gpus,duration,user,tenant,kind,attempts,outcome,wait
a,2024-03-01 08:00:00,4,1h,ann,red,,30|90,,10
b,2024-03-01 09:30:00,1,30m,bob,red,inference,,failed,0
c,2024-03-02 08:00:00,0.5,2h,ann,blue,,,killed,
`

func TestSummary(t *testing.T) {
	r, err := trace.NewReader(strings.NewReader(small), "small", trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := trace.Summarize(r)
	if err != nil {
		t.Fatal(err)
	}
	var table, object strings.Builder
	if err := s.WriteTable(&table); err != nil {
		t.Fatal(err)
	}
	if err := s.WriteJSON(&object); err != nil {
		t.Fatal(err)
	}
	want := `jobs          3
from          2024-03-01T08:00:00Z
span          1d
GPU hours     5.63
offered load  0.23 GPUs
largest job   4 GPUs
users told    2
tried again   1 job, 2 failed attempts (0.13 GPU hours)

seconds   mean   p10    p25    p50    p75    p90    p95    p99    max
duration  4,240  2,184  2,760  3,720  5,460  6,504  6,852  7,130  7,200
wait      5      1      2.5    5      7.5    9      9.5    9.9    10

GPUs  jobs  share  GPU hours  share
0.5   1     33.3%  1          17.8%
1     1     33.3%  0.5        8.9%
4     1     33.3%  4.13       73.4%

outcome  jobs  share  GPU hours  share
passed   1     33.3%  4.13       73.4%
failed   1     33.3%  0.5        8.9%
killed   1     33.3%  1          17.8%

kind       jobs  share  GPU hours  share
training   2     66.7%  5.13       91.1%
inference  1     33.3%  0.5        8.9%

tenant  jobs  share  GPU hours  share
red     2     66.7%  4.63       82.2%
blue    1     33.3%  1          17.8%

arrivals by hour of the day  0 0 0 0 0 0 0 0 2 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0
`
	if trimmed(table.String()) != want {
		t.Errorf("have\n%s", table.String())
	}
	for _, part := range []string{
		`"jobs": 3,`, `"span_s": 86400,`, `"origin": "2024-03-01T08:00:00Z"`, `"p50": 3720`, `"failed": 2,`,
		`"most": 3`, `"share_of_gpu_time": 0.17751479289940827`, `"hours_are_of_the_day": true`,
	} {
		if !strings.Contains(object.String(), part) {
			t.Errorf("no %s in\n%s", part, object.String())
		}
	}
}

// trimmed is a table without the spaces at the ends of its lines.
func trimmed(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

func TestSummaryOfNothing(t *testing.T) {
	s, err := trace.Summarize(&list{})
	if err != nil {
		t.Fatal(err)
	}
	var table, object strings.Builder
	if err := s.WriteTable(&table); err != nil {
		t.Error(err)
	}
	if err := s.WriteJSON(&object); err != nil { // NaN cannot be written
		t.Error(err)
	}
}
