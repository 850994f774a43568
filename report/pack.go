package report

import (
	"encoding/base64"
	"encoding/binary"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
)

// The data of jobs and intervals for the page is packed: whole numbers as
// varints, most of them as differences to the one before (zigzag where they may
// be negative), in base64. assets/pack.js reads it.

type packer struct {
	b    []byte
	tick time.Duration // moments are counted in ticks
}

func (p *packer) uint(v uint64) { p.b = binary.AppendUvarint(p.b, v) }
func (p *packer) int(v int64)   { p.b = binary.AppendVarint(p.b, v) }
func (p *packer) text() string  { return base64.StdEncoding.EncodeToString(p.b) }

// moment packs a moment as the difference to another one, later the one to an
// earlier one.
func (p *packer) moment(at, since time.Duration) { p.int(int64(at/p.tick) - int64(since/p.tick)) }
func (p *packer) later(at, since time.Duration)  { p.uint(uint64(at/p.tick - since/p.tick)) }

// tickFor is the precision of moments in a page about so much time: about one
// part in ten millions, and no better than a millisecond.
func tickFor(span time.Duration) time.Duration {
	tick := time.Millisecond
	for tick < time.Second && span/tick > 30_000_000 {
		tick *= 10
	}
	return tick
}

// maxText is how many characters of a user's string the page shows.
const maxText = 120

// short cuts a user's string to what the page shows.
func short(s string) string {
	if len(s) <= maxText {
		return strings.ToValidUTF8(s, "\uFFFD")
	}
	n := 0
	for i := range s {
		if n++; n > maxText {
			return strings.ToValidUTF8(s[:i], "\uFFFD") + "…"
		}
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// dictionary numbers strings in order of first use.
type dictionary struct {
	Words []string
	of    map[string]int
}

func (d *dictionary) number(s string) uint64 {
	if n, ok := d.of[s]; ok {
		return uint64(n)
	}
	if d.of == nil {
		d.of = map[string]int{}
	}
	n := len(d.Words)
	d.of[s] = n
	d.Words = append(d.Words, s)
	return uint64(n)
}

// jobTable is the jobs that any interval of any run names. A job that is the
// same in several runs is there once.
type jobTable struct {
	of      map[*job.Job]int
	same    map[jobFacts]int
	facts   []jobFacts
	names   dictionary
	tenants dictionary
}

type jobFacts struct {
	key, name, tenant string
	gpu               unit.Milli
	submit            time.Duration
}

func newJobTable() *jobTable { return &jobTable{of: map[*job.Job]int{}, same: map[jobFacts]int{}} }

func (t *jobTable) number(j *job.Job) int {
	if n, ok := t.of[j]; ok {
		return n
	}
	f := jobFacts{clean(short(jobKey(j))), short(j.Name), short(j.Tenant), j.Demand.Milli(j.Demand.Roles[0].Tasks), j.Submit}
	n, ok := t.same[f]
	if !ok {
		n = len(t.facts)
		t.same[f] = n
		t.facts = append(t.facts, f)
	}
	t.of[j] = n
	return n
}

// packedJobs is the job table as the page reads it. A key is what it shares
// with the key before, and the rest.
type packedJobs struct {
	N       int      `json:"n"`
	Packed  string   `json:"packed"` // for each: shared bytes of the key, name, tenant, milli GPUs, submission
	Keys    string   `json:"keys"`   // the rest of each key, a line for each
	Names   []string `json:"names"`
	Tenants []string `json:"tenants"`
}

func (t *jobTable) pack(tick time.Duration) packedJobs {
	p := packer{tick: tick}
	out := packedJobs{N: len(t.facts)}
	var keys strings.Builder
	last, submit := "", time.Duration(0)
	for _, f := range t.facts {
		n := sharedASCII(last, f.key)
		keys.WriteString(f.key[n:])
		keys.WriteByte('\n')
		last = f.key
		p.uint(uint64(n))
		p.uint(t.names.number(f.name))
		p.uint(t.tenants.number(f.tenant))
		p.uint(uint64(f.gpu))
		p.moment(f.submit, submit)
		submit = f.submit
	}
	out.Packed, out.Keys, out.Names, out.Tenants = p.text(), keys.String(), some(t.names.Words), some(t.tenants.Words)
	return out
}

// sharedASCII is how many bytes both begin with, up to the first that is not
// ASCII: there, a byte is a character in every encoding.
func sharedASCII(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] && a[n] < utf8.RuneSelf {
		n++
	}
	return n
}

// ending is how an interval ended, for the colours of the chart.
type ending int

const (
	ranOn ending = iota
	finished
	failed
	cancelled
	preempted
	lostNode
	changed
)

var endingNames = []string{"still running", "finished", "failed", "cancelled", "preempted", "node lost", "moved or resized"}

// otherJob stands for the other job in the sentences of bar.ended.
const otherJob = "{job}"

// ended says in words how an interval ended.
func (b *bar) ended() (ending, string) {
	sentence := b.why.Sentence(func(job.ID) string { return otherJob })
	switch b.how {
	case job.Done:
		return finished, "finished"
	case job.FailedPhase:
		return failed, "failed for good"
	case job.Cancelled:
		return cancelled, "was cancelled"
	case job.Running:
		if b.why.Code == job.Moved || b.why.Code == job.Resized {
			return changed, sentence
		}
		return ranOn, "was still running when the run ended"
	}
	switch b.why.Code {
	case job.Failed:
		return failed, sentence
	case job.NodeLost, job.TakenBack:
		return lostNode, sentence
	}
	return preempted, sentence
}

// packedChart is the intervals of one run as the page reads them.
type packedChart struct {
	Racks     int         `json:"racks"` // which list of nodes
	Start     float64     `json:"start"` // seconds
	End       float64     `json:"end"`
	N         int         `json:"n"`
	Unit      int64       `json:"unit"`   // thousandths of a GPU that tops and heights count in
	Packed    string      `json:"packed"` // for each: start, length, job, reason, boxes
	Why       []packedWhy `json:"why"`
	NOutages  int         `json:"nOutages"`
	Outages   string      `json:"outages"` // packed: start, length, node
	Dropped   int         `json:"dropped"`
	LostHours float64     `json:"lost"` // GPU-hours of those dropped
}

type packedWhy struct {
	Ending ending `json:"ending"`
	Text   string `json:"text"`
}

// maxWhys is how many different reasons the page knows; the rarest policies
// write numbers into theirs.
const maxWhys = 2000

func (t *timeline) pack(jobs *jobTable, tick time.Duration) packedChart {
	out := packedChart{
		Start: t.start.Seconds(), End: t.end.Seconds(), N: len(t.bars), Unit: t.unit(),
		NOutages: len(t.outages), Outages: packOutages(t.outages, tick), Dropped: t.dropped, LostHours: t.lost,
	}
	p := packer{tick: tick}
	var prev bar
	whys := map[packedWhy]int{}
	lastJob := 0
	for i := range t.bars {
		b := &t.bars[i]
		end, text := b.ended()
		why := packedWhy{end, short(text)}
		if _, ok := whys[why]; !ok && len(whys) >= maxWhys {
			why.Text = "stopped: " + b.why.Code.String()
		}
		if _, ok := whys[why]; !ok {
			whys[why] = len(out.Why)
			out.Why = append(out.Why, why)
		}
		p.moment(b.start, prev.start)
		p.later(b.end, b.start)
		n := jobs.number(b.job)
		p.int(int64(n - lastJob))
		t.packWhy(&p, b, whys[why], jobs)
		t.packBoxes(&p, b, out.Unit)
		prev, lastJob = *b, n
	}
	out.Packed, out.Why = p.text(), some(out.Why)
	return out
}

func packOutages(list []outage, tick time.Duration) string {
	p := packer{tick: tick}
	start := time.Duration(0)
	for _, o := range list {
		p.moment(o.start, start)
		p.later(o.end, o.start)
		p.uint(uint64(o.node))
		start = o.start
	}
	return p.text()
}

// packWhy packs the number of a reason, with a bit for whether there are
// several boxes and one for whether another job is named.
func (t *timeline) packWhy(p *packer, b *bar, why int, jobs *jobTable) {
	flags := uint64(0)
	if b.n > 1 {
		flags |= 1
	}
	if b.other != nil {
		flags |= 2
	}
	p.uint(uint64(why)<<2 | flags)
	if b.other != nil {
		p.uint(uint64(jobs.number(b.other)))
	}
	if b.n > 1 {
		p.uint(uint64(b.n))
	}
}

// packBoxes packs the boxes of a bar, each as the difference to the one before.
func (t *timeline) packBoxes(p *packer, b *bar, unit int64) {
	top := int64(0)
	for _, x := range t.boxes[b.box : b.box+b.n] {
		p.int((x.top - top) / unit)
		p.uint(uint64(x.height / unit))
		top = x.top
	}
}

// unit is the largest number that divides every top and height.
func (t *timeline) unit() int64 {
	u := int64(unit.One)
	for _, x := range t.boxes {
		u = gcd(gcd(u, x.top), x.height)
	}
	return u
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
