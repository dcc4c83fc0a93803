-- Made to be overlooked: a column with the name that a query might give the row.
CREATE TABLE "Odd" (id int PRIMARY KEY, t text NOT NULL DEFAULT 'same', v text);
