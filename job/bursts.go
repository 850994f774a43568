package job

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Burst is a part of an iteration in which each node of a job sends to others. From and To are since the start of
// the iteration. GBps is what a node sends then, one way, where nothing holds it back.
type Burst struct {
	From, To time.Duration
	GBps     float64
}

// MaxBursts is the most bursts that an iteration can have.
const MaxBursts = 6

// Bursts are those of one iteration in order of time, which do not overlap; unused ones are zero.
type Bursts [MaxBursts]Burst

// Len is the number of bursts.
func (b *Bursts) Len() int {
	n := 0
	for n < MaxBursts && b[n].To > 0 {
		n++
	}
	return n
}

// Peak is the most GB/s that a node sends at any time.
func (b *Bursts) Peak() (peak float64) {
	for i := range b {
		peak = max(peak, b[i].GBps)
	}
	return peak
}

// Check tells what is wrong with bursts of iterations of such a length; nil: nothing.
func (b *Bursts) Check(iteration time.Duration) error {
	var last time.Duration
	for i := range b[:b.Len()] {
		switch x := &b[i]; {
		case x.From < last || x.To <= x.From:
			return fmt.Errorf("bursts %s: each must end after it begins, and begin after the one before", b)
		case !(x.GBps > 0 && x.GBps <= 1e9):
			return fmt.Errorf("bursts %s: write speeds in GB/s above 0, at most 1e9", b)
		}
		last = b[i].To
	}
	switch {
	case last > 0 && iteration == 0:
		return fmt.Errorf("bursts %s without the time of an iteration", b)
	case last > iteration:
		return fmt.Errorf("bursts %s in iterations of %v", b, iteration)
	}
	return nil
}

// String is the bursts as ParseBursts reads them.
func (b *Bursts) String() string {
	var text []byte
	for i := range b[:b.Len()] {
		if i > 0 {
			text = append(text, '+')
		}
		text = append(text, b[i].From.String()+"-"+b[i].To.String()+"@"...)
		text = strconv.AppendFloat(text, b[i].GBps, 'f', -1, 64)
	}
	return string(text)
}

// ParseBursts reads bursts such as 50ms-100ms@5 or 10ms-30ms@6.25+80ms-95ms@2: from when to when in the
// iteration, with how many GB/s. The empty text is none.
func ParseBursts(text string) (b Bursts, err error) {
	if text == "" {
		return b, nil
	}
	parts := strings.Split(text, "+")
	if len(parts) > MaxBursts {
		return b, fmt.Errorf("%d bursts: %d at most", len(parts), MaxBursts)
	}
	for i, part := range parts {
		when, speed, ok := strings.Cut(part, "@")
		from, to, ranged := strings.Cut(when, "-")
		if !ok || !ranged {
			return Bursts{}, fmt.Errorf("burst %q: write it as 50ms-100ms@5", part)
		}
		x := &b[i]
		if x.From, err = time.ParseDuration(from); err == nil {
			if x.To, err = time.ParseDuration(to); err == nil {
				x.GBps, err = strconv.ParseFloat(speed, 64)
			}
		}
		if err != nil || x.From < 0 || x.To <= 0 || !(x.GBps > 0) || math.IsInf(x.GBps, 1) {
			return Bursts{}, fmt.Errorf("burst %q: write it as 50ms-100ms@5", part)
		}
	}
	return b, b.Check(math.MaxInt64)
}
