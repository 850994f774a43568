package gandivafair

import (
	"math"

	"github.com/norn-scheduler/norn/solve/fair"
)

// Trader is a user: what she is entitled to, and what she could use.
type Trader struct {
	Tickets float64
	Demand  []float64 // GPUs of each generation that her jobs could use
	Speed   []float64 // how fast her jobs run on each generation
	Has     []float64 // GPUs of each generation that she is entitled to
}

// Entitle divides the GPUs of each generation by tickets. Nobody gets more than she
// can use; what is left of her share goes to the others.
func Entitle(gpus []float64, users []Trader) error {
	claims := make([]fair.Claim, len(users))
	for i := range users {
		users[i].Has = make([]float64, len(gpus))
	}
	for g, n := range gpus {
		for i, u := range users {
			claims[i] = fair.Claim{Weight: u.Tickets, Cap: u.Demand[g]}
		}
		get, err := fair.Fill(n, claims)
		if err != nil {
			return err
		}
		for i := range users {
			users[i].Has[g] = get[i]
		}
	}
	return nil
}

// Deal is a trade: GPUs of a fast generation for Price times as many of a slow one.
type Deal struct {
	Buyer, Seller int
	Fast, Slow    int
	GPUs, Price   float64
}

// trifle is what is not worth trading.
const trifle = 1e-9

// Trade lets users trade until nobody gains more than the margin, and lists the
// deals. Generations are traded pair by pair, in the order given: each fast one
// against each behind it. The user who gains most from the fast generation buys
// from the one who gains least, at the speed-up of the second-highest buyer, or
// half way between the two where there is no other: both are better off.
func Trade(users []Trader, generations []int, margin float64) (deals []Deal) {
	for i, f := range generations {
		for _, s := range generations[i+1:] {
			for range 4 * len(users) * len(users) {
				d, ok := deal(users, f, s, margin)
				if !ok {
					break
				}
				buyer, seller := &users[d.Buyer], &users[d.Seller]
				seller.Has[f] -= d.GPUs
				buyer.Has[f] += d.GPUs
				buyer.Has[s] -= d.Price * d.GPUs
				seller.Has[s] += d.Price * d.GPUs
				deals = append(deals, d)
			}
		}
	}
	return deals
}

// gain is how much faster a user's jobs run on one generation than on another.
func (u *Trader) gain(f, s int) float64 {
	if u.Speed[s] <= 0 {
		return math.Inf(1)
	}
	return u.Speed[f] / u.Speed[s]
}

// buys tells whether a user could use more of the fast generation and has anything
// to pay with.
func (u *Trader) buys(f, s int) bool {
	return u.Speed[f] > 0 && u.Speed[s] > 0 && u.Has[s] > trifle && u.Demand[f]-u.Has[f] > trifle
}

// sells tells whether a user has any of the fast generation and could use more of
// the slow one.
func (u *Trader) sells(f, s int) bool {
	return u.Speed[s] > 0 && u.Has[f] > trifle && u.Demand[s]-u.Has[s] > trifle
}

// deal is the next trade.
func deal(users []Trader, f, s int, margin float64) (Deal, bool) {
	buyer, seller := -1, -1
	for i := range users {
		u := &users[i]
		if u.buys(f, s) && (buyer < 0 || u.gain(f, s) > users[buyer].gain(f, s)) {
			buyer = i
		}
		if u.sells(f, s) && (seller < 0 || u.gain(f, s) < users[seller].gain(f, s)) {
			seller = i
		}
	}
	if buyer < 0 || seller < 0 || buyer == seller {
		return Deal{}, false
	}
	b, c := &users[buyer], &users[seller]
	if !(b.gain(f, s) > c.gain(f, s)*(1+margin)) {
		return Deal{}, false
	}
	second := 0.0
	for i := range users {
		if i != buyer && i != seller && users[i].buys(f, s) {
			second = max(second, users[i].gain(f, s))
		}
	}
	price := (b.gain(f, s) + c.gain(f, s)) / 2
	if second > c.gain(f, s) {
		price = second
	}
	n := min(c.Has[f], b.Has[s]/price, b.Demand[f]-b.Has[f], (c.Demand[s]-c.Has[s])/price)
	return Deal{buyer, seller, f, s, n, price}, n > trifle
}
