package ecos

import "math"

// cone is a second-order cone: rows whose first slack is not below the length of the
// others. Its scaling W, of Nesterov and Todd, is eta times
//
//	a  q'
//	q  1 + qq'/(1+a)    with a² - q·q = 1
//
// and W² is eta² times (diag(d1, 1) + vv' - uu') with v = v1 (0, q) and u = (u0, u1 q),
// which keeps it sparse.
type cone struct {
	from, to       int // its rows
	at             int // where the first one is in the system; the two that stand for v and u are behind the last one
	eta, eta2, a   float64
	d1, u0, u1, v1 float64
	q, s, z        []float64
}

// newCones are cones of so many rows each, which end with row m.
func newCones(sizes []int, m int) []cone {
	var cones []cone
	for _, n := range sizes {
		m -= n
	}
	for _, n := range sizes {
		cones = append(cones, cone{from: m, to: m + n, eta: 1, eta2: 1, a: 1, q: make([]float64, n-1), s: make([]float64, n), z: make([]float64, n)})
		m += n
	}
	return cones
}

// excess is u0² - |u1|², which is above zero inside the cone.
func excess(u []float64) float64 {
	e := float64(u[0] * u[0])
	for _, v := range u[1:] {
		e -= float64(v * v)
	}
	return e
}

// over is x/y for a y above zero, however small.
func over(x, y float64) float64 {
	if y < leastPivot {
		return x / leastPivot
	}
	return x / y
}

// scaling finds the W with which Ws⁻¹ and Wz are the same. It fails outside the cone.
func (k *cone) scaling(s, z []float64) bool {
	s, z = s[k.from:k.to], z[k.from:k.to]
	es, ez := excess(s), excess(z)
	if es <= 0 || ez <= 0 {
		return false
	}
	ns, nz := math.Sqrt(es), math.Sqrt(ez)
	for i := range s {
		k.s[i], k.z[i] = over(s[i], ns), over(z[i], nz)
	}
	k.eta2 = over(ns, nz)
	k.eta = math.Sqrt(k.eta2)
	gamma := 1.0
	for i := range s {
		gamma += float64(k.s[i] * k.z[i])
	}
	half := over(0.5, math.Sqrt(float64(0.5*gamma)))
	k.a = float64(half * (k.s[0] + k.z[0]))
	w := 0.0
	for i := range k.q {
		k.q[i] = float64(half * (k.s[i+1] - k.z[i+1]))
		w += float64(k.q[i] * k.q[i])
	}
	return k.sparse(w)
}

// sparse finds the parts of W²; w is q·q.
func (k *cone) sparse(w float64) bool {
	b := 1 + k.a
	c := 1 + k.a + over(w, b)
	d := 1 + over(2, b) + over(w, b*b)
	k.d1 = float64(0.5 * (float64(k.a*k.a) + float64(w*(1-over(c*c, 1+float64(w*d))))))
	if k.d1 < 0 {
		k.d1 = 0
	}
	square := float64(k.a*k.a) + w - k.d1
	k.u0 = math.Sqrt(square)
	u1 := over(c*c, square)
	if u1-d <= 0 {
		return false
	}
	k.u1, k.v1 = math.Sqrt(u1), math.Sqrt(u1-d)
	return true
}

// times is W u. It may be in place.
func (k *cone) times(u, out []float64) {
	u, out = u[k.from:k.to], out[k.from:k.to]
	along := dot(k.q, u[1:])
	f := u[0] + over(along, 1+k.a)
	out[0] = k.eta * (float64(k.a*u[0]) + along)
	for i, q := range k.q {
		out[i+1] = k.eta * (u[i+1] + float64(f*q))
	}
}

// square adds W² x to y, both as the system has them.
func (k *cone) square(x, y []float64) {
	n := len(k.q)
	x, y = x[k.at:k.at+n+3], y[k.at:k.at+n+3]
	v, u := x[n+1], x[n+2]
	y[0] += float64(k.eta2 * (float64(k.d1*x[0]) + float64(k.u0*u)))
	both, along := float64(k.v1*v)+float64(k.u1*u), 0.0
	for i, q := range k.q {
		y[i+1] += float64(k.eta2 * (x[i+1] + float64(both*q)))
		along += float64(q * x[i+1])
	}
	y[n+1] += float64(k.eta2 * (float64(k.v1*along) + v))
	y[n+2] += float64(k.eta2 * (float64(k.u0*x[0]) + float64(k.u1*along) - u))
}

// product is u ∘ v.
func (k *cone) product(u, v, out []float64) {
	u, v, out = u[k.from:k.to], v[k.from:k.to], out[k.from:k.to]
	first := dot(u, v)
	for i := 1; i < len(u); i++ {
		out[i] = float64(u[0]*v[i]) + float64(v[0]*u[i])
	}
	out[0] = first
}

// divide is the x with u ∘ x = v.
func (k *cone) divide(u, v, out []float64) {
	u, v, out = u[k.from:k.to], v[k.from:k.to], out[k.from:k.to]
	along := dot(u[1:], v[1:])
	e := excess(u)
	f := over(over(along, u[0])-v[0], e)
	first := over(float64(u[0]*v[0])-along, e)
	for i := 1; i < len(u); i++ {
		out[i] = float64(f*u[i]) + over(v[i], u[0])
	}
	out[0] = first
}

// reach is how much of d can be added to lambda so that it stays inside: 1 over what
// is returned, without end where that is not above 0.
func (k *cone) reach(lambda, d []float64) float64 {
	lambda, d = lambda[k.from:k.to], d[k.from:k.to]
	e := float64(lambda[0]*lambda[0]) - dot(lambda[1:], lambda[1:])
	if e <= 0 {
		return 0
	}
	length := math.Sqrt(e)
	inverse := 1 / length
	along := float64(lambda[0] / length * d[0])
	for i := 1; i < len(d); i++ {
		along -= float64(lambda[i] / length * d[i])
	}
	f := (along + d[0]) / (lambda[0]/length + 1)
	square := 0.0
	for i := 1; i < len(d); i++ {
		r := inverse * (d[i] - float64(f*(lambda[i]/length)))
		square += float64(r * r)
	}
	return math.Sqrt(square) - float64(inverse*along)
}
