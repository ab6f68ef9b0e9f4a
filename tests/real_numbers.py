"""Texts of real numbers, and what is known of them, for Python and the page."""

from fractions import Fraction

#: Texts that are equal to a fraction, by a theorem.
IDENTITIES = {
    "sqrt(2)*sqrt(8)": Fraction(4),
    "sqrt(2)^2": Fraction(2),
    "(1+sqrt(2))*(1-sqrt(2))": Fraction(-1),
    "sqrt(2+sqrt(3))-(sqrt(6)+sqrt(2))/2": Fraction(0),  # by a separation bound
    "cbrt(2)^3": Fraction(2),
    "sqrt(100140049)": Fraction(10_007),
    "(sqrt(2)+sqrt(3))^2-5-2*sqrt(6)": Fraction(0),
    "2*cos(36°)-phi": Fraction(0),
    "phi^2-phi": Fraction(1),
    "sin(30°)": Fraction(1, 2),
    "sin(pi/6)": Fraction(1, 2),
    "cos(pi+pi/3)": Fraction(-1, 2),
    "tan(225°)": Fraction(1),
    "sin(75°)-(sqrt(6)+sqrt(2))/4": Fraction(0),
    "tan(60°)^2": Fraction(3),
    "2*pi-tau": Fraction(0),
    "asin(1/2)*6/pi": Fraction(1),
    "atan(sqrt(3))*3/pi": Fraction(1),
    "acos(0.3)+asin(0.3)-pi/2": Fraction(0),
    "atan(1)*4-pi": Fraction(0),
    "ln(8)/ln(2)": Fraction(3),
    "log2(8)": Fraction(3),
    "log(1000)": Fraction(3),
    "ln(6)-ln(2)-ln(3)": Fraction(0),
    "ln(e^5)": Fraction(5),
    "e^ln(7)": Fraction(7),
    "10^log(5)": Fraction(5),
    "2^log2(5)": Fraction(5),
    "e^2*e^-2": Fraction(1),
    "exp(1)-e": Fraction(0),
    "sin(1)^2+cos(1)^2": Fraction(1),
    "1+tan(2)^2-1/cos(2)^2": Fraction(0),
    "cosh(1)^2-sinh(1)^2": Fraction(1),
    "sinh(ln(2))": Fraction(3, 4),
    "cos(asin(0.6))": Fraction(4, 5),
    "sin(asin(0.3))": Fraction(3, 10),
    "tan(atan(5))": Fraction(5),
    "sin(-1)+sin(1)": Fraction(0),
    "8^(2/3)": Fraction(4),
    "2^0.5*2^1.5": Fraction(4),
    "(e/(1+pi))*(1+pi)-e": Fraction(0),
    "hypot(3, 4)": Fraction(5),
    "gamma(0.5)^2/pi": Fraction(1),
    "10^40000/10^39998": Fraction(100),
}
#: Texts and their values that a guess by nearness would take for another.
HARD = {
    "floor(cos(exp(-100)))": 0,
    "ceil(1/cos(exp(-100)))": 2,
    "sign(1-cos(10^-41))": 1,
    "sign(10^-300-sin(10^-300))": 1,
    "floor(tanh(400))": 0,
    "round(0.5+exp(-500))": 1,
    "round(0.5-exp(-500))": 0,
    "floor(sqrt(10^400+1)/10^200)": 1,
    "floor(sqrt(10^400-1)/10^200)": 0,
    "floor(log(10^200-1))": 199,
    "floor(log(10^200))": 200,
    "max(cos(exp(-200)), 1)": 1,
    "floor(100*exp(-300) mod exp(-300))": 0,
    "floor(sin(90°))": 1,
}
#: Texts with a step that no theorem and no enclosure decides.
UNDECIDED = (
    "floor(4*(4*atan(1/5)-atan(1/239))-pi)",  # Machin: 0, which no theorem here shows
    "1/(sin(2)-2*sin(1)*cos(1))",
    "floor(cos(exp(-100000)))",  # not within so many digits
)
