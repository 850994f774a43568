package themis

import (
	"fmt"
	"math"

	"github.com/norn-scheduler/norn/solve/choose"
)

// Offer is what is given out, by type of GPU, in a unit of the caller's.
type Offer struct {
	Free  []int64   // all that is free
	Rooms [][]int64 // what of that is free on each machine; empty: nobody asks to be on one
}

// Bid is what an app says some GPUs are worth to it.
type Bid struct {
	Type   int     // of GPUs
	Need   int64   // of that type, in the unit of what is free
	Pieces []int64 // parts of Need that must each be on one machine; the rest may be anywhere
	Rho    float64 // if it had them
}

// Bidder is an app in an auction.
type Bidder struct {
	Rho    float64 // with nothing of what is offered
	Weight float64 // how much its value counts; 0 is 1
	Bids   []Bid
}

// Award is what came of an auction for one app.
type Award struct {
	Bid  int     // the bid that is granted in proportion, -1 none
	Keep float64 // how much of it the app keeps: the rest is the hidden payment
}

// Auction is the partial allocation mechanism. The GPUs of each type are divided so that
// the product of all values (1/rho), each to the power of its weight, is greatest. Each app
// then pays: it gives back, in proportion, as much as its presence takes from the others.
// Truthful bids are then the best that an app can make, as long as no weight follows from a bid.
// (Cole, Gkatzelis and Goel, "Mechanism Design for Fair Division", EC 2013, section 3.)
//
// Where the best split that does not look at machines would not fit them, few bids are
// divided by trying all splits. Of many bids, those that find no machine give way to the
// best that fit, and payments stay those of the split that does not look at machines.
func Auction(o Offer, apps []Bidder) ([]Award, error) {
	options := make([][]choose.Option, len(apps))
	for i := range apps {
		for k, b := range apps[i].Bids {
			options[i] = append(options[i], choose.Option{Kind: b.Type, Need: b.Need, Value: apps[i].gain(k)})
		}
	}
	all, takes, err := choose.Marginal(o.Free, options, choose.Limits{})
	if err != nil {
		return nil, fmt.Errorf("auction of %d apps: %w", len(apps), err)
	}
	picks := all.Pick
	if d := newDivision(o, apps); d.pieces && d.few() {
		picks, takes = d.marginal()
	} else if d.pieces && !d.fits(picks) {
		d.mend(picks)
	}
	awards := make([]Award, len(apps))
	for i := range apps {
		awards[i] = Award{Bid: picks[i], Keep: min(1, math.Exp(-takes[i]/apps[i].weight()))}
	}
	return awards, nil
}

// gain is the logarithm of what a bid multiplies an app's value by, times its weight.
func (b *Bidder) gain(bid int) float64 {
	if bid == choose.None {
		return 0
	}
	return b.weight() * math.Log(b.Rho/b.Bids[bid].Rho)
}

func (b *Bidder) weight() float64 {
	if b.Weight == 0 {
		return 1
	}
	return b.Weight
}
