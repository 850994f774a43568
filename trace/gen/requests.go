package gen

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/trace"
)

// Sender is a client of a server of a language model, and what it sends.
type Sender struct {
	Name          string
	PerMinute     float64 // requests, while it sends
	Poisson       bool    // at random; false: evenly
	Input, Output Range   // tokens, each number as likely as any other
	On, Off       time.Duration
	From          time.Duration // it begins then
}

// Range is the numbers from Least to Most.
type Range struct{ Least, Most int }

func (r Range) draw(rng *rand.Rand) int { return r.Least + rng.IntN(r.Most-r.Least+1) }

// Overload is the two clients of the paper who send more than a server can serve: 90 and 180 requests in a minute of
// 256 tokens of input and as many of output (Sheng et al., OSDI 2024).
func Overload() []Sender {
	return []Sender{
		{Name: "a", PerMinute: 90, Input: Range{256, 256}, Output: Range{256, 256}},
		{Name: "b", PerMinute: 180, Input: Range{256, 256}, Output: Range{256, 256}},
	}
}

// ParseSender reads a client: name:rate=90,input=256,output=64-512,arrive=poisson,on=1m,off=30s,from=2m.
func ParseSender(text string) (s Sender, err error) {
	name, rest, ok := strings.Cut(text, ":")
	if s = (Sender{Name: name, PerMinute: 60, Input: Range{256, 256}, Output: Range{256, 256}}); !ok || name == "" {
		return s, fmt.Errorf("%q: write a name and what it sends, as in a:rate=90,input=256,output=64-512", text)
	}
	for part := range strings.SplitSeq(rest, ",") {
		key, value, _ := strings.Cut(part, "=")
		switch key {
		case "rate":
			if s.PerMinute, err = strconv.ParseFloat(value, 64); err == nil && !(s.PerMinute > 0 && s.PerMinute <= 1e6) {
				err = fmt.Errorf("a rate is above 0 and at most 1000000 requests in a minute")
			}
		case "input":
			s.Input, err = parseRange(value)
		case "output":
			s.Output, err = parseRange(value)
		case "arrive":
			if s.Poisson = value == "poisson"; !s.Poisson && value != "evenly" {
				err = fmt.Errorf("write evenly or poisson")
			}
		case "on":
			s.On, err = unit.ParseSeconds(value)
		case "off":
			s.Off, err = unit.ParseSeconds(value)
		case "from":
			s.From, err = unit.ParseSeconds(value)
		default:
			err = fmt.Errorf("known are rate, input, output, arrive, on, off and from")
		}
		if err != nil {
			return s, fmt.Errorf("client %s: %s: %w", name, part, err)
		}
	}
	if (s.On > 0) != (s.Off > 0) || s.On < 0 || s.Off < 0 || s.From < 0 {
		return s, fmt.Errorf("client %s: on and off are times above 0 that go together, and from is not below 0", name)
	}
	return s, nil
}

func parseRange(text string) (r Range, err error) {
	low, high, both := strings.Cut(text, "-")
	if r.Least, err = strconv.Atoi(low); err == nil && both {
		r.Most, err = strconv.Atoi(high)
	} else {
		r.Most = r.Least
	}
	if err != nil || r.Least < 1 || r.Most < r.Least || r.Most > 1<<30 {
		return r, fmt.Errorf("write a number of tokens, or a range such as 64-512")
	}
	return r, nil
}

// mostRequests bounds what is made.
const mostRequests = 50_000_000

// Requests makes the requests of clients over a time, in the order of time. Equal seeds give equal
// ones.
func Requests(senders []Sender, span time.Duration, seed uint64) ([]trace.Request, error) {
	want := 0.0
	for i := range senders {
		want += senders[i].PerMinute * span.Minutes()
		if slices.ContainsFunc(senders[:i], func(s Sender) bool { return s.Name == senders[i].Name }) {
			return nil, fmt.Errorf("client %s is named twice", senders[i].Name)
		}
	}
	if span <= 0 || want > mostRequests {
		return nil, fmt.Errorf("%.0f requests in %s are none, or more than %d", want, unit.Human(span), mostRequests)
	}
	var all []trace.Request
	for i := range senders {
		all = append(all, senders[i].requests(span, rand.New(rand.NewPCG(seed, uint64(i))))...)
	}
	slices.SortStableFunc(all, func(a, b trace.Request) int { return cmp.Compare(a.At, b.At) })
	return all, nil
}

// requests are those of one client. Time in which it is off does not count.
func (s *Sender) requests(span time.Duration, rng *rand.Rand) (all []trace.Request) {
	gap := float64(time.Minute) / s.PerMinute
	for n, sum := 0, 0.0; ; n++ {
		sending := time.Duration(math.Round(float64(n) * gap))
		if s.Poisson {
			sum += rng.ExpFloat64() * gap
			sending = time.Duration(math.Round(sum))
		}
		at := s.From + sending
		if s.On > 0 {
			at += sending / s.On * s.Off
		}
		if at >= span {
			return all
		}
		all = append(all, trace.Request{Client: s.Name, At: at, Input: s.Input.draw(rng), Output: s.Output.draw(rng)})
	}
}
